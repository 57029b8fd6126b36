"""Acyclic graphs: substitution in topological order."""
