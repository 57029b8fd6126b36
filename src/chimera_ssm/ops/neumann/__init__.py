"""The truncated Neumann series."""
