"""The slow truth itself, entry by entry."""

import itertools
import math

import torch

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_mask, reference_matrix, reference_mix, reference_series
from tests import zoo


def test_the_matrix_has_a_row_for_each_target():
    A = reference_matrix(chimera.Graph(3, [[0, 2, 1], [1, 1, 0]]), torch.tensor([[5.0, 6.0, 7.0]]))
    assert A.tolist() == [[[0, 7, 0], [5, 0, 6], [0, 0, 0]]]


def test_the_mask_of_a_dag_is_the_sum_over_its_paths():
    dag = zoo.random_dag(6, 10)
    weight = zoo.bounded_weights(dag, 1)
    edge = dict(zip(map(tuple, dag.edge_index.T.tolist()), weight[0].tolist(), strict=True))
    expected = torch.eye(6, dtype=torch.float64)
    for length in range(2, 7):
        for path in itertools.permutations(range(6), length):
            steps = list(itertools.pairwise(path))
            if all(step in edge for step in steps):
                expected[path[-1], path[0]] += math.prod(edge[step] for step in steps)
    torch.testing.assert_close(reference_mask(dag, weight)[0], expected)
    torch.testing.assert_close(reference_series(dag, weight, (dag.longest_path,))[0], expected)


def test_a_mix_is_its_sum():
    L = torch.rand(1, 4, 3, 3, dtype=torch.float64)
    C, B, V = (torch.randn(1, n, 3, k, dtype=torch.float64) for n, k in ((2, 5), (2, 5), (4, 6)))
    scale = torch.rand(1, 4, 3, dtype=torch.float64)
    expected = torch.zeros(1, 4, 3, 6, dtype=torch.float64)
    for h, i, j in itertools.product(range(4), range(3), range(3)):
        product = (C[0, h // 2, i] * B[0, h // 2, j]).sum()
        expected[0, h, i] += L[0, h, i, j] * product * scale[0, h, j] * V[0, h, j]
    torch.testing.assert_close(reference_mix(L, C, B, V, scale), expected)
