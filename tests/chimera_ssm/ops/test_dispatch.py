"""The table of implementations: every module is there, and what a backend lacks the next one serves."""

from importlib import import_module

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops import dispatch

LINE = chimera.Line(5)
WEIGHT = torch.rand(2, 4)


@pytest.mark.parametrize("key", dispatch.TABLE, ids="-".join)
def test_every_module_offers_something(key):
    operations = import_module(dispatch.TABLE[key]).OPERATIONS
    assert operations
    assert all(isinstance(operation, dispatch.Operation) for operation in operations.values())
    assert key[1] in dispatch.BACKENDS


def test_the_first_backend_that_can_is_taken(engine):
    backend = {"kernels": "cpu", "plain": "torch"}[engine]
    assert dispatch.find("factorize", "sparse_lu", LINE, WEIGHT).backend == backend
    assert dispatch.find("factorize", "dense", LINE, WEIGHT).backend == "torch"
    assert dispatch.find("factorize", "sparse_lu", LINE, WEIGHT.bfloat16()).backend == "torch"


def test_a_more_general_algorithm_serves_what_a_special_one_lacks():
    assert "mix_by_mask" not in import_module(dispatch.TABLE["scan", "cpu"]).OPERATIONS
    found = import_module(dispatch.TABLE["sweep", "cpu"]).OPERATIONS["mix_by_mask"]
    V, C = torch.rand(1, 2, 5, 16), torch.rand(1, 1, 5, 16)
    terms = [chimera.ops.terms.Term(LINE, WEIGHT[None], C, C, None, "scan")]
    assert dispatch.find("mix_by_mask", "scan", terms, V) == ("cpu", found.run, False)  # 16 bits: kernels of GPUs alone


def test_what_nobody_offers_is_said():
    assert dispatch.find("mix_by_state", "dense", [], torch.rand(1)) is None
    with pytest.raises(NotImplementedError, match="no backend offers mix_by_state of dense"):
        dispatch.run("mix_by_state", "dense", [], torch.rand(1))
