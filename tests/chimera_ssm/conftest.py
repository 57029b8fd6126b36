"""Forms of a mix."""

import pytest

from tests.chimera_ssm.ops.comparison import force_form


@pytest.fixture(params=["mask", "state"])
def form(request, monkeypatch):
    """A test that asks for it runs twice: mixes go through masks, then through states, whatever would be chosen."""
    force_form(monkeypatch, request.param)
    return request.param
