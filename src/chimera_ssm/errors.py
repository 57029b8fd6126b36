"""The library's errors. All are ``ValueError``: what was found, what was expected, what to do."""


class TopologyError(ValueError):
    """A graph that is malformed, or of a kind that the operation asked for cannot treat."""
