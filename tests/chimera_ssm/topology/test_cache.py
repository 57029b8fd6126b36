"""Derived structure is shared by equal topologies, survives them for a while, and is bounded in bytes."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import numpy as np
import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.topology import base, cache
from chimera_ssm.topology.cache import nbytes, on_device
from tests import zoo

CPU, META = torch.device("cpu"), torch.device("meta")
calls = []


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch):
    monkeypatch.setattr(cache, "_singles", cache.Recent(1 << 29))
    monkeypatch.setattr(cache, "_unions", cache.Recent(1 << 28))
    calls.clear()


def squares(topology, factor=1):
    """A function to cache: counts its calls."""
    calls.append((topology.key, factor))
    return factor * np.arange(topology.num_nodes) ** 2


def nested(topology):
    calls.append(topology.key)
    return np.arange(3), (np.arange(2), 7, None)


def ring(num_nodes):
    return chimera.Graph(num_nodes, [np.arange(num_nodes), (np.arange(num_nodes) + 1) % num_nodes])


MAKE = [
    lambda: chimera.Line(11),
    lambda: chimera.UndirectedLine(11),
    lambda: chimera.GridDAG((3, 5), (0, 1)),
    lambda: chimera.Grid((3, 5)),
    lambda: chimera.DAG(3, [[0, 0], [1, 2]]),
    lambda: ring(13),
    lambda: chimera.batch([chimera.Line(2), ring(5)]),
]
every_kind = pytest.mark.parametrize("make", MAKE)


# Sharing


@every_kind
def test_equal_topologies_share_derived_structure(make):
    one, other = make(), make()
    assert one is not other
    assert one.block_plan is other.block_plan
    assert one.cached(squares) is other.cached(squares)
    assert one._source is other._source
    assert len(calls) == 1


@every_kind
def test_it_survives_a_topology_that_was_collected(make):
    topology = make()
    plan, gone = topology.block_plan, weakref.ref(topology)
    del topology
    gc.collect()
    assert gone() is None
    assert make().block_plan is plan


def test_different_topologies_do_not_share():
    assert chimera.Grid((8, 8)).block_plan is not chimera.Grid((8, 8), reverse=True).block_plan
    assert ring(5).entry is not chimera.DAG(5, [[0, 1], [1, 2]]).entry


def test_classes_of_the_same_name_do_not_share():
    class Line(chimera.Line):
        pass

    one, other = chimera.Line(6), Line(6)
    assert one.key == other.key
    assert one != other
    assert one.entry is not other.entry


def test_a_live_topology_holds_its_entry_when_the_cache_is_cleared():
    topology = ring(9)
    plan = topology.block_plan
    cache.clear()
    gc.collect()
    assert ring(9).block_plan is plan


def test_a_cleared_entry_is_collected():
    entry = weakref.ref(ring(17).entry)
    gc.collect()
    assert entry() is not None
    cache.clear()
    gc.collect()
    assert entry() is None


@pytest.mark.parametrize("make", [lambda: chimera.Grid((8, 8)), lambda: zoo.molecule(30)], ids=["grid", "molecule"])
def test_a_topology_built_at_every_step_is_planned_once(make, monkeypatch):
    plan = base.plan_elimination
    monkeypatch.setattr(base, "plan_elimination", lambda *args: calls.append(1) or plan(*args))

    class Model(torch.nn.Module):
        def forward(self, weight, rhs):
            return chimera.solve(make(), weight, rhs, chimera.SparseLU())

    model, num_nodes, num_edges = Model(), make().num_nodes, make().num_edges
    for _ in range(4):
        weight = (torch.rand(1, num_edges) * 0.1).requires_grad_()
        model(weight, torch.randn(1, num_nodes, 2)).sum().backward()
        gc.collect()
    assert 1 <= len(calls) <= 2  # the topology, and its flip if the adjoint uses that


def test_related_topologies_are_cached():
    grid = chimera.Grid((3, 4))
    assert grid.dags() is chimera.Grid((3, 4)).dags()
    graph = ring(6)
    assert graph.flip() is ring(6).flip()
    assert graph.dags(roots=[1]) is ring(6).dags(roots=[1])
    assert graph.dags(roots=[1]) is not graph.dags(roots=[2])


# Arguments, devices, limits


def test_values_depend_on_function_and_arguments():
    line = chimera.Line(4)
    assert line.cached(squares, 2).tolist() == [0, 2, 8, 18]
    assert line.cached(squares, 3).tolist() == [0, 3, 12, 27]
    assert line.cached(squares, 2) is line.cached(squares, 2)
    assert len(calls) == 2


def test_arrays_are_moved_to_a_device_once():
    line = chimera.Line(4)
    first, (second, number, nothing) = line.cached(nested, device=CPU)
    assert first.tolist() == [0, 1, 2]
    assert second.tolist() == [0, 1]
    assert (number, nothing) == (7, None)
    assert chimera.Line(4).cached(nested, device=CPU)[0] is first
    assert line.cached(nested, device=META)[0].device == META
    assert line.to("meta").cached(nested, device=META)[0] is line.cached(nested, device=META)[0]
    assert line.cached(nested)[0].tolist() == [0, 1, 2]
    assert len(calls) == 1


def test_plans_are_moved_to_a_device():
    plan = chimera.Grid((2, 3)).tensors("block_plan", META)
    assert plan.entry.device == plan.node.device == META
    assert plan.shape == (1, 6)


def test_a_limit_keeps_the_newest_results():
    line = chimera.Line(4)
    for factor in (1, 2, 3, 1, 4):  # 1 is made again after 3
        line.cached(squares, factor, limit=2)
    assert [factor for _, factor in calls] == [1, 2, 3, 1, 4]
    line.cached(squares, 1, limit=2)
    line.cached(squares, 4, limit=2)
    assert len(calls) == 5
    line.cached(squares, 3, limit=2)
    assert len(calls) == 6
    assert len(line.entry.results[squares]) == 2


def test_tensors_made_in_inference_mode_serve_training():
    line = chimera.Line(4)
    with torch.inference_mode():
        tensor = line.cached(squares, device=CPU)
    assert not tensor.is_inference()


# The bound in bytes


def test_entries_used_long_ago_are_dropped():
    """The cache is bounded in bytes, and values that are added to an entry later count, too."""
    recent, rings = cache.Recent(4096), {n: ring(n) for n in (9, 10, 11, 90)}
    for n in (9, 10, 90):
        recent.put(n, rings[n].entry)
    assert 2 * 8 * (9 + 10 + 90) <= recent.nbytes == sum(nbytes(rings[n].entry) for n in (9, 10, 90)) <= 4096
    assert recent.get(9) is rings[9].entry
    rings[9].cached(zeros, 400, 0)
    recent.put(11, rings[11].entry)
    assert list(recent.kept) == [9, 11]
    assert recent.nbytes == nbytes(rings[9].entry) + nbytes(rings[11].entry)
    rings[11].cached(zeros, 300, 400)
    recent.put(90, rings[90].entry)
    assert list(recent.kept) == [90]


def zeros(topology, of_array, of_tensor):
    return np.zeros(of_array), torch.zeros(of_tensor)


def test_the_last_entry_is_kept_whatever_its_size():
    recent = cache.Recent(100)
    recent.put(0, ring(50).entry)
    assert recent.get(0) is ring(50).entry
    recent.put(1, ring(60).entry)
    assert list(recent.kept) == [1]
    assert recent.get(0) is None


def test_topologies_beyond_the_bound_are_collected(monkeypatch):
    monkeypatch.setattr(cache, "_singles", cache.Recent(1 << 16))
    entries = [weakref.ref(ring(n).entry) for n in range(100, 200)]
    gc.collect()
    alive = [entry() for entry in entries if entry() is not None]
    assert 1 < len(alive) < 100
    assert sum(map(nbytes, alive)) <= 1 << 16
    assert entries[-1]() is not None


def test_unions_do_not_displace_their_parts(monkeypatch):
    monkeypatch.setattr(cache, "_unions", cache.Recent(1 << 10))
    graphs = [ring(n) for n in range(20, 30)]
    plans = [graph.block_plan for graph in graphs]
    for graph in graphs:
        _ = chimera.batch([graph, graphs[0]]).block_plan
    del graph, graphs
    gc.collect()
    assert len(cache._unions.kept) == 1
    assert [ring(n).block_plan for n in range(20, 30)] == plans


# Threads


def test_threads_get_the_same_values():
    barrier = Barrier(8)

    def work(_):
        barrier.wait()
        return [(ring(n).block_plan, ring(n).cached(squares, n % 3, limit=2)) for n in range(5, 45)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    for of_thread in found[1:]:
        assert all(one[0] is other[0] for one, other in zip(of_thread, found[0], strict=True))
        assert all((one[1] == other[1]).all() for one, other in zip(of_thread, found[0], strict=True))


# Bytes of nested values, and moving them to a device


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
