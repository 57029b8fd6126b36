"""Windows by gathering, against the definition, node by node."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.nn.window_gather import gather_convolution, window_table

CPU = torch.device("cpu")


def test_windows_of_a_line():
    none = 9  # outside
    lines = chimera.batch([chimera.Line(4), chimera.Line(5, reverse=True)])
    causal = window_table(lines, 3, 1, True, CPU)
    assert causal.T.tolist() == [
        [none, none, 0], [none, 0, 1], [0, 1, 2], [1, 2, 3],
        [6, 5, 4], [7, 6, 5], [8, 7, 6], [none, 8, 7], [none, none, 8],
    ]  # fmt: skip
    assert window_table(chimera.UndirectedLine(3), 3, 1, False, CPU).T.tolist() == [[3, 0, 1], [0, 1, 2], [1, 2, 3]]


def test_windows_of_a_grid_are_squares():
    table = window_table(chimera.Grid((3, 4)), 3, 2, False, CPU)
    assert table[:, 5].tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert table[:, 0].tolist() == [12, 12, 12, 12, 0, 1, 12, 4, 5]


@pytest.mark.parametrize("channels", [1, 5])
def test_a_convolution_is_its_sum(channels):
    generator = torch.Generator().manual_seed(0)
    table = window_table(chimera.Grid((2, 3)), 3, 2, False, CPU)
    x = torch.randn(2, 6, channels, dtype=torch.float64, generator=generator)
    weight = torch.randn(9, channels, dtype=torch.float64, generator=generator)
    bias = torch.randn(channels, dtype=torch.float64, generator=generator)
    expected = bias.repeat(2, 6, 1)
    for tap, nodes in enumerate(table.tolist()):
        for node, other in enumerate(nodes):
            if other < 6:
                expected[:, node] += weight[tap] * x[:, other]
    torch.testing.assert_close(gather_convolution(x, weight, bias, table), expected)
