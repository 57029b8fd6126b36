"""What must hold on any graph: permutation of nodes and edges, unions, disconnected company."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chimera_ssm as chimera
from tests import zoo

settings.register_profile("chimera", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("chimera")


@st.composite
def graphs(draw):
    """Any graph, or any acyclic one, of up to 24 nodes."""
    num_nodes = draw(st.integers(1, 24))
    links = draw(st.integers(0, 3 * num_nodes))
    seed = draw(st.integers(0, 10_000))
    if draw(st.booleans()):
        return zoo.random_dag(num_nodes, links, seed)
    return zoo.random_graph(num_nodes, links, seed, directed=draw(st.booleans()), loops=draw(st.booleans()))


def mixed(topology, weight, tensors):
    return chimera.mix(topology, weight, *tensors)


def features(num_nodes, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, num_nodes, k, generator=generator, dtype=torch.float64) for n, k in ((1, 3), (1, 3), (2, 4))]


@given(graphs(), st.integers(0, 100))
def test_permuting_nodes_permutes_the_output(topology, seed):
    order = torch.from_numpy(np.random.default_rng(seed).permutation(topology.num_nodes))
    place = torch.argsort(order)
    moved = type(topology)(topology.num_nodes, place[topology.edge_index])
    weight, tensors = zoo.bounded_weights(topology, 2), features(topology.num_nodes)
    found = mixed(moved, weight, [x[:, order] for x in tensors])
    torch.testing.assert_close(found, mixed(topology, weight, tensors)[:, order])


@given(graphs(), st.integers(0, 100))
def test_permuting_edges_changes_nothing(topology, seed):
    order = torch.from_numpy(np.random.default_rng(seed).permutation(topology.num_edges))
    moved = type(topology)(topology.num_nodes, topology.edge_index[:, order])
    weight, tensors = zoo.bounded_weights(topology, 2), features(topology.num_nodes)
    torch.testing.assert_close(mixed(moved, weight[:, order], tensors), mixed(topology, weight, tensors))


@given(st.lists(graphs(), min_size=1, max_size=5))
def test_a_packed_batch_equals_its_parts(parts):
    union = chimera.batch(parts)
    weights = [zoo.bounded_weights(t, 2, seed=k) for k, t in enumerate(parts)]
    tensors = [features(t.num_nodes, seed=k) for k, t in enumerate(parts)]
    packed = mixed(union, torch.cat(weights, -1), [torch.cat(x, dim=1) for x in zip(*tensors, strict=True)])
    alone = [mixed(*args) for args in zip(parts, weights, tensors, strict=True)]
    torch.testing.assert_close(packed, torch.cat(alone, dim=1))
    mask = chimera.mask(union, torch.cat(weights, -1))
    blocks = [
        torch.block_diag(*m)
        for m in zip(*(chimera.mask(t, w) for t, w in zip(parts, weights, strict=True)), strict=True)
    ]
    torch.testing.assert_close(mask, torch.stack(blocks))


@given(graphs(), graphs())
def test_company_that_is_not_connected_changes_nothing(topology, other):
    joined = chimera.Graph(
        topology.num_nodes + other.num_nodes,
        torch.cat([topology.edge_index, other.edge_index + topology.num_nodes], dim=1),
    )
    weight, tensors = zoo.bounded_weights(topology, 2), features(topology.num_nodes)
    more = torch.cat([weight, zoo.bounded_weights(other, 2, seed=9)], dim=-1)
    wider = [torch.cat([a, b], dim=1) for a, b in zip(tensors, features(other.num_nodes, seed=8), strict=True)]
    found = mixed(joined, more, wider)[:, : topology.num_nodes]
    torch.testing.assert_close(found, mixed(topology, weight, tensors))


@given(graphs())
def test_flip_is_the_transpose(topology):
    weight = zoo.bounded_weights(topology, 2)
    torch.testing.assert_close(chimera.mask(topology.flip(), weight), chimera.mask(topology, weight).mT)


@pytest.mark.parametrize("name", zoo.ZOO)
def test_results_are_repeatable_bitwise(name):
    topology = zoo.ZOO[name]
    weight, tensors = zoo.bounded_weights(topology, 2), features(topology.num_nodes)
    assert torch.equal(mixed(topology, weight, tensors), mixed(topology, weight, tensors))
