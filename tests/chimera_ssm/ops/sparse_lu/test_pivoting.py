"""Weights for which elimination without pivoting breaks down: as accurate as the dense float64 truth, or refused."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops.custom_ops import as_operators
from chimera_ssm.ops.reference import reference_mask, reference_matrix, reference_mix
from chimera_ssm.ops.sparse_lu import pivoting
from chimera_ssm.ops.tridiagonal.resolvent import UndirectedPathResolvent
from tests import zoo
from tests.chimera_ssm.ops.comparison import (
    DTYPES,
    assert_same,
)

H, N, P = 3, 3, 5


def with_loops(topology):
    """A graph with a self-loop at every third node."""
    loops = torch.arange(0, topology.num_nodes, 3).expand(2, -1)
    return chimera.Graph(topology.num_nodes, torch.cat([topology.edge_index, loops], dim=1))


TOPOLOGIES = {
    "two nodes": chimera.Graph(2, [[0, 1, 0], [1, 0, 0]]),
    "undirected line": chimera.UndirectedLine(20),
    "undirected lines": chimera.batch([chimera.UndirectedLine(n) for n in (3, 1, 9)]),
    "path in disorder": zoo.ZOO["undirected path in disorder"],
    "grid": chimera.Grid((3, 4)),
    "tree": with_loops(zoo.random_tree(12)),
    "graph": with_loops(zoo.random_graph(16, 24)),
    "graphs": chimera.batch([with_loops(zoo.molecule(9)), chimera.Graph(1, [[], []]), zoo.molecule(20)]),
}
NAMES = pytest.mark.parametrize("name", TOPOLOGIES)


def well_conditioned(topology, heads, seed=0):
    """Weights of ±1, so that leading minors are often zero, with a condition below a hundred, ``[heads, E]``."""
    generator, found = torch.Generator().manual_seed(seed), []
    while len(found) < heads:
        weight = torch.randint(0, 2, (1, topology.num_edges), generator=generator).double() * 2 - 1
        weight *= torch.rand(1, topology.num_edges, generator=generator).round().double() * 0.5 + 0.5
        system = torch.eye(topology.num_nodes, dtype=torch.float64) - reference_matrix(topology, weight)
        if torch.linalg.cond(system) < 100:
            found.append(weight)
    return torch.cat(found)


def one_head_of_many(topology):
    """Well-conditioned weights of one head; rows of the others are dominated by their diagonal."""
    return torch.cat([zoo.bounded_weights(topology, H - 1), well_conditioned(topology, 1)])


def one_part_of_many(topology):
    """Well-conditioned weights of the first part of a union; rows of the others are dominated by their diagonal."""
    first = topology.parts[0]
    weight = zoo.bounded_weights(topology, H)
    weight[:, : first.num_edges] = well_conditioned(first, H)
    return weight


def features(topology, dtype):
    generator = torch.Generator().manual_seed(1)
    shapes = (1, topology.num_nodes, N), (1, topology.num_nodes, N), (H, topology.num_nodes, P)
    scale = torch.rand(H, topology.num_nodes, generator=generator, dtype=dtype)
    tensors = [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]
    return [x.requires_grad_() for x in (*tensors, scale)]


def check_mix(topology, weight, dtype):
    arguments = [weight.to(dtype).requires_grad_(), *features(topology, dtype)]
    references = [x.detach().double().requires_grad_() for x in arguments]
    expected = reference_mix(reference_mask(topology, references[0]), *references[1:])
    assert_same(chimera.mix(topology, *arguments), expected, arguments, references, dtype)


def check_mask_and_solve(topology, weight, dtype):
    weight = weight.to(dtype).requires_grad_()
    rhs = features(topology, dtype)[2]
    references = [x.detach().double().requires_grad_() for x in (weight, rhs)]
    expected = reference_mask(topology, references[0])
    assert_same(chimera.mask(topology, weight), expected, [weight], references[:1], dtype)
    expected = reference_mask(topology, references[0]) @ references[1]
    assert_same(chimera.solve(topology, weight, rhs), expected, [weight, rhs], references, dtype)


@DTYPES
@NAMES
def test_mask_and_solve(name, engine, dtype):
    topology = TOPOLOGIES[name]
    for weight in (well_conditioned(topology, H), one_head_of_many(topology), one_part_of_many(topology)):
        check_mask_and_solve(topology, weight, dtype)


@DTYPES
@NAMES
def test_mix(name, form, engine, dtype):
    topology = TOPOLOGIES[name]
    for weight in (well_conditioned(topology, H), one_head_of_many(topology), one_part_of_many(topology)):
        check_mix(topology, weight, dtype)


@NAMES
def test_operators(name, form):
    with as_operators():
        check_mix(TOPOLOGIES[name], one_head_of_many(TOPOLOGIES[name]), torch.float32)
        check_mask_and_solve(TOPOLOGIES[name], one_head_of_many(TOPOLOGIES[name]), torch.float32)


@pytest.mark.parametrize("name", ["undirected lines", "graph"])
def test_second_derivatives(name, form):
    topology = TOPOLOGIES[name]
    weight, rest = one_head_of_many(topology).requires_grad_(), [x.detach() for x in features(topology, torch.float64)]
    assert torch.autograd.gradgradcheck(lambda w: chimera.mix(topology, w, *rest), weight, fast_mode=True)


def test_a_pivot_next_to_zero(engine):
    """A self-loop of 1 − 6·10⁻⁸: I − A is well conditioned, but not its first entry."""
    weight = torch.tensor([[0.5, 1.0, 1 - 6e-8]])
    x = chimera.solve(TOPOLOGIES["two nodes"], weight, torch.tensor([[[1.0], [0.0]]]))
    torch.testing.assert_close(x.flatten(), torch.tensor([-2.0, -1.0]), rtol=1e-6, atol=0)


def test_long_lines_of_both_signs(engine):
    """Products of pivots far from a half: plain PyTorch composes many of them."""
    line = chimera.UndirectedLine(300)
    for a, b in ((3.0, -2.0), (0.9, -0.9), (1.5, 0.2)):
        weight = torch.stack([torch.full((299,), a), torch.full((299,), b)], dim=-1).flatten()
        weight = weight * torch.linspace(0.9, 1.1, 598)
        check_mask_and_solve(line, weight.double().expand(H, -1), torch.float64)


@pytest.mark.parametrize("name", ["grid", "graphs", "undirected line"])
def test_bounded_weights_are_not_pivoted(name, engine, monkeypatch):
    topology = TOPOLOGIES[name]
    monkeypatch.setattr(pivoting, "PartlyPivoted", None)
    for gamma in (0.95, 0.999):
        steps = torch.rand(2, 2, topology.num_nodes, generator=torch.Generator().manual_seed(0)) * 10
        weight, _ = chimera.graph_adjacency(topology, *steps, gamma=gamma)
        assert chimera.mask(topology, weight).isfinite().all()
        if topology.undirected_paths is not None:
            weight, _ = chimera.undirected_line_adjacency(topology, *steps, gamma=gamma)
            assert isinstance(chimera.SparseLU().resolvent(topology, weight), UndirectedPathResolvent)


def test_graphs_too_large_to_be_pivoted_are_refused(engine, monkeypatch):
    monkeypatch.setattr(pivoting, "MAX_ENTRIES", 200)
    topology = TOPOLOGIES["graph"]
    weight = one_head_of_many(topology)
    with pytest.raises(ValueError, match=r"1 of 3 heads needs pivoting.*256 entries.*row sums of \|A\| below one"):
        chimera.solve(topology, weight, torch.ones(H, topology.num_nodes, 1, dtype=torch.float64))
    assert chimera.mask(topology, torch.full_like(weight, torch.nan)).isnan().any()  # handed on, not refused
