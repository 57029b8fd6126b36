"""Bytes of nested values, and moving them to a device."""

from dataclasses import dataclass

import numpy as np
import torch

import chimera_ssm as chimera
from chimera_ssm.topology.memory import nbytes, on_device


@dataclass
class Plan:
    first: np.ndarray
    number: int
    rest: tuple


def plan():
    return Plan(np.arange(3), 7, (np.arange(2, dtype=np.int32), None, torch.zeros(5)))


def test_bytes_are_those_of_arrays_tensors_and_strings_each_counted_once():
    assert nbytes(plan()) == 3 * 8 + 2 * 4 + 5 * 4
    array = np.zeros(4)
    assert nbytes({"a": array, "b": [array, "four"]}) == 4 * 8 + 4
    assert nbytes(3) == 0


def test_parts_of_a_union_are_not_counted():
    large, small = chimera.Line(1000), chimera.Line(2)
    _ = large.edge_index, small.edge_index
    assert nbytes(chimera.batch([large, small]).entry) < nbytes(large.entry)


def test_arrays_become_tensors_of_a_device():
    moved = on_device(plan(), torch.device("meta"))
    assert isinstance(moved, Plan)
    assert moved.first.device == moved.rest[0].device == moved.rest[2].device == torch.device("meta")
    assert (moved.number, moved.rest[1]) == (7, None)
    assert on_device(plan(), torch.device("cpu")).first.tolist() == [0, 1, 2]
