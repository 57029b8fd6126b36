"""The laboratory: baselines, data, training, recipes and studies behind the `chimera` command."""
