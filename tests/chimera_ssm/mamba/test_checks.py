"""Checks return what they found out, and refuse the rest by one sentence; others are tested with their functions."""

import pytest
import torch

from chimera_ssm.mamba.checks import check_cu_seqlens, check_seq_idx, check_shape

ROW = torch.zeros(1, 6, 2, 3)


def test_starts_of_sequences():
    seq_idx = torch.tensor([[0, 0, 1, 1, 4, 4]])
    assert check_seq_idx(seq_idx, ROW).tolist() == [[False, False, True, False, True, False]]
    assert check_cu_seqlens(torch.tensor([0, 2, 4, 6]), check_seq_idx(seq_idx, ROW), ROW) == [2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool])
def test_indices_decrease_in_any_dtype(dtype):
    with pytest.raises(ValueError, match=r"seq_idx must not decrease, found (1|True) before (0|False) at step 3"):
        check_seq_idx(torch.tensor([[0, 1, 1, 0, 0, 0]], dtype=dtype), ROW)


@pytest.mark.parametrize("bounds", [[0, 4], [0, 7], [1, 6], [0, 3, 3, 6], [0, 4, 2, 6], [0]])
def test_bounds_increase_from_nothing_to_everything(bounds):
    with pytest.raises(ValueError, match=r"cu_seqlens must (increase from 0 to seqlen|end with seqlen = 6), found"):
        check_cu_seqlens(torch.tensor(bounds), None, ROW)


def test_two_divisions_must_agree():
    starts = check_seq_idx(torch.tensor([[0, 0, 1, 1, 1, 1]]), ROW)
    with pytest.raises(ValueError, match=r"must divide the row alike, found starts \[2\] and \[3\]"):
        check_cu_seqlens(torch.tensor([0, 3, 6]), starts, ROW)


@pytest.mark.parametrize("seq_idx", [torch.zeros(6), torch.zeros(2, 6).long(), [[0] * 6]])
def test_other_indices(seq_idx):
    with pytest.raises(ValueError, match=r"seq_idx must be integers of shape \[1, 6\] = \[batch, seqlen\], found"):
        check_seq_idx(seq_idx, ROW)
    with pytest.raises(ValueError, match=r"cu_seqlens must be integers of shape \[num_sequences \+ 1\], found"):
        check_cu_seqlens(seq_idx, None, ROW)


def test_shapes():
    check_shape("x", torch.zeros(2, 3), ("rows", "columns"), [None, 3])
    with pytest.raises(ValueError, match=r"x must have shape \[rows, columns = 4\], found \[2, 3\]"):
        check_shape("x", torch.zeros(2, 3), ("rows", "columns"), [None, 4])
    with pytest.raises(ValueError, match="x must be a floating point tensor, found list"):
        check_shape("x", [1.0], ("rows",), [1])
