"""Small grids with stored products, in Triton's interpreter: values and every gradient against dense float64."""

import pytest
import torch

pytest.importorskip("triton")

import chimera_ssm as chimera
from chimera_ssm.ops.sweep import triton as sweep
from chimera_ssm.ops.sweep import triton_rows
from chimera_ssm.ops.sweep.triton_stored import stores
from tests.chimera_ssm.ops.comparison import check_half
from tests.chimera_ssm.ops.sweep.test_triton import (
    ALL,
    LOW,
    check,
    check_launches,
    check_low_precision,
    dags_of,
    interpreted,
)


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    """Calls of the class that stores products."""
    found = []
    monkeypatch.setattr(sweep, "StoredRows", lambda *args, made=sweep.StoredRows: found.append(args) or made(*args))
    yield found
    assert found


@interpreted
@pytest.mark.parametrize(
    ("shape", "corners"),
    [
        ((1, 1), ALL[:1]),
        ((5, 7), ALL[1:2]),
        ((5, 7), ALL[2:3]),
        ((1, 16), ALL[:2]),
        ((9, 1), ALL[2:]),
        ((5, 7), ALL),
        ((5, 3), ALL[:3]),  # a pair that leads down, and one DAG that leads up
        ((5, 3), (ALL[3], ALL[1], ALL[2], ALL[0], ALL[1])),  # in any order, one of them twice
    ],
)
def test_values_and_gradients(shape, corners):
    check(dags_of(shape, corners))


@interpreted
def test_a_larger_grid(monkeypatch):
    monkeypatch.setattr(triton_rows, "largest_blocks", lambda *_: (256, 16, 64))  # one block, for the interpreter
    check(dags_of((14, 14), ALL))


@interpreted
def test_heads_in_groups_and_several_pairs_of_keys():
    check(dags_of((2, 3), ALL[:3]), H=4, G=2, pairs=2)
    check(dags_of((1, 2), ALL[:1]), Z=2, H=2)


@interpreted
def test_programs_share_the_heads_of_a_group(monkeypatch):
    monkeypatch.setattr(triton_rows, "_PROGRAMS", 4)
    check(dags_of((5, 2), ALL[1:3]), H=6)


@interpreted
@pytest.mark.parametrize(("N", "P"), [(70, 5), (3, 150)])
def test_several_blocks_of_states_and_channels(N, P):
    check(dags_of((3, 4), ALL[:2]), H=2, N=N, P=P)


@interpreted
@LOW
def test_low_precision(dtype, precision, bounds):
    check_low_precision(dtype, precision, bounds)


@interpreted
def test_mix_takes_16_bits_as_they_are(calls):
    check_half(dags_of((5, 7), ALL))
    V, weight, _, C, *_ = calls[0]
    assert (V.dtype, C.dtype, weight.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


def test_launches():
    check_launches()


def test_products_are_stored_on_small_grids_whose_dags_are_sorted(calls):
    calls.append("not called here")
    _, down, _ = sweep.directions([*chimera.Grid((14, 14)).dags()])
    assert stores([14, 14], down)
    assert not stores([14, 17], down)
    assert not stores([14, 14], 0b10)
