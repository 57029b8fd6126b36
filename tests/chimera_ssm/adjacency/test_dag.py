"""Weights on DAGs and grids against their formulas: masks, extreme steps, what is refused."""

import pytest
import torch

import chimera_ssm as chimera
from tests import zoo
from tests.chimera_ssm.adjacency.formulas import (
    HEADS,
    acyclic,
    assert_finite,
    assert_same,
    check_mask,
    dag_options,
    edge_steps,
    extreme,
    grids,
    masks,
    node_steps,
    row_sums,
    slow_dag,
    slow_edge_delta,
    slow_grid_delta,
    steps,
    subgraph,
)

# Values


@acyclic
@dag_options
def test_dag_weights(topology, step, normalize):
    delta = node_steps(topology)
    expected = slow_dag(topology, slow_edge_delta(topology, delta, step), delta, normalize)
    assert_same(chimera.dag_adjacency(topology, delta, step=step, normalize=normalize), expected)


@acyclic
@pytest.mark.parametrize("normalize", ["mean", "sqrt"])
def test_dag_weights_with_edge_steps(topology, normalize):
    delta, edge_step = node_steps(topology), edge_steps(topology)
    expected = slow_dag(topology, slow_edge_delta(topology, delta, "mean", edge_step), delta, normalize)
    assert_same(chimera.dag_adjacency(topology, delta, edge_step=edge_step, normalize=normalize), expected)


def test_dag_weights_take_the_means_if_not_told_otherwise():
    dag = zoo.ZOO["dag 63"]
    delta = node_steps(dag)
    assert_same(chimera.dag_adjacency(dag, delta), chimera.dag_adjacency(dag, delta, step="mean", normalize="mean"))


@acyclic
@dag_options
def test_a_node_without_in_edges_injects_with_its_own_step(topology, step, normalize):
    delta = node_steps(topology)
    scale = chimera.dag_adjacency(topology, delta, step=step, normalize=normalize).scale
    roots = topology.in_degree == 0
    assert torch.equal(scale[:, roots], delta[:, roots])


@grids
@dag_options
def test_grid_weights_take_the_step_of_their_axis(topology, step, normalize):
    delta = steps(HEADS, topology.parts[0].num_axes, topology.num_nodes)
    expected = slow_dag(topology, slow_grid_delta(topology, delta, step), delta.mean(1), normalize)
    assert_same(chimera.grid_adjacency(topology, delta, step=step, normalize=normalize), expected)


@grids
@dag_options
def test_equal_steps_on_all_axes_are_those_of_a_dag(topology, step, normalize):
    delta = node_steps(topology)
    per_axis = delta.unsqueeze(1).expand(-1, topology.parts[0].num_axes, -1)
    options = {"step": step, "normalize": normalize}
    assert_same(
        chimera.grid_adjacency(topology, per_axis, **options), chimera.dag_adjacency(topology, delta, **options)
    )


# Masks


@acyclic
@dag_options
def test_dag_weights_of_a_masked_topology_are_those_of_its_subgraph(topology, step, normalize):
    delta = node_steps(topology)
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.dag_adjacency(
            t, delta[:, nodes], step=step, normalize=normalize, node_mask=mask
        ),
    )


@acyclic
def test_masked_dag_weights_with_edge_steps(topology):
    delta, edge_step = node_steps(topology), edge_steps(topology)
    check_mask(
        topology,
        lambda t, nodes, edges, mask: chimera.dag_adjacency(
            t, delta[:, nodes], edge_step=edge_step[:, edges], node_mask=mask
        ),
    )


@pytest.mark.parametrize("corner", [(0, 0), (0, 1), (1, 0), (1, 1)])
@dag_options
def test_a_padded_grid_has_the_weights_of_the_grid(corner, step, normalize):
    padded, small = chimera.GridDAG((5, 6), corner), chimera.GridDAG((3, 4), corner)
    mask = torch.zeros(5, 6, dtype=torch.bool)
    mask[:3, :4] = True
    mask = mask.flatten()
    delta = steps(HEADS, 2, 30)
    weight, scale = chimera.grid_adjacency(padded, delta, step=step, normalize=normalize, node_mask=mask)
    expected = chimera.grid_adjacency(small, delta[..., mask], step=step, normalize=normalize)
    alive = mask[padded.edge_index].all(0)
    assert_same((weight[:, alive], scale[:, mask]), expected)
    assert not weight[:, ~alive].any()
    assert not scale[:, ~mask].any()


@grids
@dag_options
def test_masked_grid_weights(topology, step, normalize):
    delta = steps(HEADS, topology.parts[0].num_axes, topology.num_nodes)
    edge_delta = slow_grid_delta(topology, delta, step)
    for mask in masks(topology):
        weight, scale = chimera.grid_adjacency(topology, delta, step=step, normalize=normalize, node_mask=mask)
        expected_weight, expected_scale = torch.zeros_like(weight), torch.zeros_like(scale)
        if mask.any():
            sub, alive = subgraph(topology, mask)
            own = delta.mean(1)[:, mask]
            expected_weight[:, alive], expected_scale[:, mask] = slow_dag(sub, edge_delta[:, alive], own, normalize)
        assert_same((weight, scale), (expected_weight, expected_scale))


# Extreme steps


@acyclic
@dag_options
def test_dag_weights_are_finite_for_extreme_steps(topology, step, normalize):
    delta = extreme(topology, 0)
    adjacency = chimera.dag_adjacency(topology, delta, step=step, normalize=normalize)
    assert_finite(adjacency, delta)
    assert (adjacency.weight >= 0).all()
    if normalize == "mean":
        assert (row_sums(topology, adjacency.weight) <= 1 + 1e-6).all()


# Bad arguments


LINE, GRID, CYCLIC = chimera.Line(4), chimera.GridDAG((2, 2)), zoo.ZOO["triangle"]
NODES, EDGES, AXES = torch.ones(HEADS, 4), torch.ones(HEADS, 3), torch.ones(HEADS, 2, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.dag_adjacency(LINE, NODES, step="source"), "step must be one of .*mean.*target.* 'source'"),
        (lambda: chimera.dag_adjacency(LINE, NODES, normalize="max"), "normalize must be .*mean.*sqrt.* 'max'"),
        (lambda: chimera.grid_adjacency(GRID, AXES, step="source"), "step must be one of .*mean.*target.* 'source'"),
        (lambda: chimera.grid_adjacency(GRID, AXES, normalize="max"), "normalize must be .*mean.*sqrt.* 'max'"),
        (lambda: chimera.dag_adjacency(LINE, NODES, step="target", edge_step=EDGES), "edge_step .* needs step='mean'"),
    ],
    ids=["step", "normalize", "step on a grid", "normalize on a grid", "edge_step with target"],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "topology",
    [
        LINE,
        chimera.DAG(4, [[0], [1]]),
        chimera.batch([chimera.GridDAG((1, 2)), chimera.GridDAG((2,))]),
        chimera.batch([chimera.GridDAG((1, 2)), chimera.Line(2)]),
    ],
    ids=repr,
)
def test_steps_per_axis_need_grids_of_equally_many_axes(topology):
    with pytest.raises(ValueError, match=r"need a grid, or a batch of grids with equally many axes, found .*; use dag"):
        chimera.grid_adjacency(topology, AXES)


@pytest.mark.parametrize(
    "call",
    [
        lambda: chimera.dag_adjacency(CYCLIC, EDGES),
        lambda: chimera.mamba2(chimera.UndirectedLine(4), NODES),
        lambda: chimera.grid_adjacency(chimera.Grid((2, 2)), AXES),
    ],
)
def test_dag_weights_need_an_acyclic_topology(call):
    with pytest.raises(ValueError, match=r"needs an acyclic topology, found .*; use its dags\(\)"):
        call()


@pytest.mark.parametrize("injection", ["step", "hold"])
def test_decays_multiply_the_steps_in_the_weights_only(injection):
    line, decay = chimera.Line(5), torch.tensor([0.5, 4.0], dtype=torch.float64)
    delta = torch.rand(3, 2, 5, dtype=torch.float64)
    weight, scale = chimera.dag_adjacency(line, delta, step="target", injection=injection, decay=decay)
    expected = torch.exp(-decay[:, None] * delta[..., 1:])
    torch.testing.assert_close(weight, expected)
    held = torch.cat([torch.ones(3, 2, 1, dtype=torch.float64), 1 - expected], dim=-1)
    torch.testing.assert_close(scale, delta if injection == "step" else held)


def test_a_decay_for_each_head():
    with pytest.raises(ValueError, match=r"decay must have shape \[2\], a number for each head of delta, found \[3\]"):
        chimera.dag_adjacency(chimera.Line(5), torch.rand(2, 5), decay=torch.ones(3))
    with pytest.raises(ValueError, match="decay must be floating point"):
        chimera.dag_adjacency(chimera.Line(5), torch.rand(2, 5), decay=torch.ones(2, dtype=torch.long))
