"""The library's errors."""

from chimera_ssm import TopologyError


def test_topology_errors_are_value_errors():
    assert issubclass(TopologyError, ValueError)
