"""Products with A along the edges, and substitution in topological order."""
