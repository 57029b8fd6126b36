"""What every parameterisation does with steps and masks: leading dimensions, precision, and what it refuses."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.adjacency import inverse_softplus
from tests import zoo
from tests.chimera_ssm.adjacency.formulas import HEADS, assert_same, edge_steps, node_steps, steps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_softplus(dtype):
    x = torch.logspace(-6, 3, 50, dtype=dtype)
    softplus = torch.logaddexp(inverse_softplus(x), torch.zeros_like(x))
    torch.testing.assert_close(softplus, x, rtol=20 * torch.finfo(dtype).eps, atol=0)


def test_leading_dimensions_are_computed_one_by_one():
    graph, dag = zoo.ZOO["molecule"], zoo.ZOO["dag 63"]
    delta, psi, edge = (steps(3, HEADS, n, seed=n) for n in (graph.num_nodes, graph.num_nodes, graph.num_edges))
    found = chimera.graph_adjacency(graph, delta, psi, edge_step=edge)
    alone = [chimera.graph_adjacency(graph, delta[b], psi[b], edge_step=edge[b]) for b in range(3)]
    assert_same(found, map(torch.stack, zip(*alone, strict=True)))
    delta = steps(3, HEADS, dag.num_nodes)
    alone = [chimera.dag_adjacency(dag, delta[b]) for b in range(3)]
    assert_same(chimera.dag_adjacency(dag, delta), map(torch.stack, zip(*alone, strict=True)))


def parameterisations():
    line, both, grid, graph = chimera.Line(5), chimera.UndirectedLine(5), chimera.GridDAG((2, 3)), zoo.molecule(20)
    return {
        "dag": lambda dtype: chimera.dag_adjacency(line, node_steps(line, dtype=dtype)),
        "dag with edges": lambda dtype: chimera.dag_adjacency(
            line, node_steps(line, dtype=dtype), edge_step=edge_steps(line, dtype=dtype)
        ),
        "grid": lambda dtype: chimera.grid_adjacency(grid, steps(HEADS, 2, 6, dtype=dtype)),
        "graph": lambda dtype: chimera.graph_adjacency(
            graph,
            node_steps(graph, dtype=dtype),
            node_steps(graph, 1, dtype=dtype),
            edge_step=edge_steps(graph, dtype=dtype),
        ),
        "undirected line": lambda dtype: chimera.undirected_line_adjacency(
            both, node_steps(both, dtype=dtype), node_steps(both, 1, dtype=dtype)
        ),
        "mamba2": lambda dtype: chimera.mamba2(line, node_steps(line, dtype=dtype)),
        "retnet": lambda dtype: chimera.retnet(line, torch.tensor([0.5, 0.9], dtype=dtype)),
    }


every_parameterisation = pytest.mark.parametrize("make", parameterisations().values(), ids=parameterisations())


@every_parameterisation
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_raised_to_float32(make, dtype):
    weight, scale = make(dtype)
    assert weight.dtype == scale.dtype == torch.float32
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.float32: 1e-5}[dtype]
    for found, exact in zip((weight, scale), make(torch.float64), strict=True):
        torch.testing.assert_close(found, exact.float(), rtol=tolerance, atol=0)


@every_parameterisation
def test_double_precision_is_kept(make):
    weight, scale = make(torch.float64)
    assert weight.dtype == scale.dtype == torch.float64


def test_half_precision_is_raised_before_anything_is_computed():
    line = chimera.Line(5)
    delta = node_steps(line, dtype=torch.bfloat16)
    assert_same(chimera.dag_adjacency(line, delta), chimera.dag_adjacency(line, delta.float()))


LINE, BOTH, GRID, CYCLIC = chimera.Line(4), chimera.UndirectedLine(4), chimera.GridDAG((2, 2)), zoo.ZOO["triangle"]
NODES, EDGES, AXES = torch.ones(HEADS, 4), torch.ones(HEADS, 3), torch.ones(HEADS, 2, 4)
THREE = torch.ones(HEADS, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.dag_adjacency(LINE, EDGES), r"delta .*H, 4\] for the 4 nodes of Line\(4\), found \[2, 3\]"),
        (lambda: chimera.dag_adjacency(LINE, NODES[0]), r"delta must have shape .* found \[4\]"),
        (lambda: chimera.dag_adjacency(LINE, NODES, edge_step=NODES), r"edge_step .*the 3 edges .* found \[2, 4\]"),
        (lambda: chimera.mamba2(LINE, EDGES), r"delta must have shape .* found \[2, 3\]"),
        (lambda: chimera.grid_adjacency(GRID, NODES), r"delta must have shape \[\.\.\., H, 2, T\] .* found \[2, 4\]"),
        (lambda: chimera.grid_adjacency(GRID, AXES[:, :1]), r"H, 2, T\] for GridDAG.* found \[2, 1, 4\]"),
        (lambda: chimera.grid_adjacency(GRID, AXES[..., :3]), r"delta must .* 4 nodes .* found \[2, 2, 3\]"),
        (lambda: chimera.graph_adjacency(CYCLIC, NODES, THREE), r"delta must .* 3 nodes .* found \[2, 4\]"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, NODES), r"psi must .* 3 nodes .* found \[2, 4\]"),
        (
            lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, delta_source=NODES),
            r"delta_source must .* 3 nodes .* found \[2, 4\]",
        ),
        (
            lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, edge_step=NODES),
            r"edge_step must .* 3 edges .* found \[2, 4\]",
        ),
        (lambda: chimera.undirected_line_adjacency(BOTH, EDGES, NODES), r"delta must .* found \[2, 3\]"),
        (lambda: chimera.undirected_line_adjacency(BOTH, NODES, EDGES), r"psi must .* found \[2, 3\]"),
        (
            lambda: chimera.undirected_line_adjacency(BOTH, NODES, NODES, delta_source=EDGES),
            r"delta_source must .* found \[2, 3\]",
        ),
    ],
)
def test_wrong_shapes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: chimera.dag_adjacency(LINE, NODES.long()), "delta"),
        (lambda: chimera.dag_adjacency(LINE, NODES, edge_step=EDGES.long()), "edge_step"),
        (lambda: chimera.grid_adjacency(GRID, AXES.long()), "delta"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE.long(), THREE), "delta"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE.long()), "psi"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, delta_source=THREE.long()), "delta_source"),
        (lambda: chimera.graph_adjacency(CYCLIC, THREE, THREE, edge_step=THREE.long()), "edge_step"),
        (lambda: chimera.undirected_line_adjacency(BOTH, NODES.long(), NODES), "delta"),
        (lambda: chimera.undirected_line_adjacency(BOTH, NODES, NODES.long()), "psi"),
        (lambda: chimera.mamba2(LINE, NODES.long()), "delta"),
        (lambda: chimera.retnet(LINE, torch.ones(HEADS).long()), "decay"),
    ],
)
def test_integer_steps_are_named(call, name):
    with pytest.raises(ValueError, match=f"{name} must be floating point, found torch.int64"):
        call()


WITH_MASK = {
    "dag": lambda mask: chimera.dag_adjacency(LINE, NODES, node_mask=mask),
    "grid": lambda mask: chimera.grid_adjacency(GRID, AXES, node_mask=mask),
    "graph": lambda mask: chimera.graph_adjacency(BOTH, NODES, NODES, node_mask=mask),
    "undirected line": lambda mask: chimera.undirected_line_adjacency(BOTH, NODES, NODES, node_mask=mask),
    "linear attention": lambda mask: chimera.linear_attention(LINE, node_mask=mask),
    "retnet": lambda mask: chimera.retnet(LINE, torch.ones(HEADS), node_mask=mask),
    "mamba2": lambda mask: chimera.mamba2(LINE, NODES, node_mask=mask),
}


@pytest.mark.parametrize("call", WITH_MASK.values(), ids=WITH_MASK)
def test_bad_masks_are_named(call):
    with pytest.raises(ValueError, match=r"node_mask must be boolean, .* found torch.int64"):
        call(torch.ones(4).long())
    with pytest.raises(ValueError, match=r"node_mask must have shape \[\.\.\., 4\] .* found \[2, 3\]"):
        call(torch.ones(2, 3, dtype=torch.bool))
