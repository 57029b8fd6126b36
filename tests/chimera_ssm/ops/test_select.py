"""The automatic choice: the table in `chimera_ssm.ops.select`, asked."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.ops import functional, select
from chimera_ssm.ops.sparse_lu import solver as elimination
from tests import zoo


@pytest.mark.parametrize(
    ("topology", "solver", "reason"),
    [
        (chimera.Line(50), chimera.Sweep, "directed paths"),
        (chimera.Line(50).flip(), chimera.Sweep, "directed paths"),
        (chimera.batch([chimera.Line(9), chimera.Line(4)]), chimera.Sweep, "directed paths"),
        (chimera.DAG(4, [[2, 0, 3], [0, 3, 1]]), chimera.Sweep, "directed paths"),
        (chimera.GridDAG((9, 9)), chimera.Sweep, "17 levels"),
        (zoo.random_dag(100, 200), chimera.Sweep, "levels"),
        (zoo.complete_dag(100), chimera.Dense, "triangular"),
        (chimera.UndirectedLine(50), chimera.SparseLU, "two scans"),
        (zoo.random_tree(50), chimera.SparseLU, "no fill"),
        (zoo.molecule(100), chimera.SparseLU, "sparse LU"),
        (chimera.batch([zoo.molecule(100), zoo.molecule(20)]), chimera.SparseLU, "sparse LU"),
        (chimera.Grid((14, 14)), chimera.SparseLU, "sparse LU"),
        (zoo.random_graph(60, 2000), chimera.Dense, "entries"),
    ],
)
def test_solver(topology, solver, reason):
    choice = chimera.select_solver(topology)
    assert type(choice.solver) is solver
    assert reason in str(choice)


@pytest.mark.parametrize(
    ("topology", "solver"),
    [
        (chimera.Line(50), chimera.Sweep),
        (chimera.UndirectedLine(50), chimera.SparseLU),
        (chimera.GridDAG((9, 9)), chimera.Sweep),
        (chimera.GridDAG((3, 3, 9)), chimera.Dense),
        (chimera.GridDAG((2, 65)), chimera.Dense),
        (zoo.random_dag(600, 1500), chimera.Sweep),
        (zoo.molecule(100), chimera.Dense),
        (chimera.batch([zoo.molecule(400), zoo.molecule(400)]), chimera.Dense),
        (zoo.molecule(600), chimera.SparseLU),
        (chimera.Graph(1, [[], []]), chimera.Sweep),
    ],
)
def test_solver_on_a_gpu(topology, solver, monkeypatch):
    monkeypatch.setattr(select, "triton_is_installed", lambda: True)
    for device in ("cuda", torch.device("cuda", 1)):
        assert type(chimera.select_solver(topology, device=device).solver) is solver


def test_grids_on_a_gpu_without_triton(monkeypatch):
    monkeypatch.setattr(select, "triton_is_installed", lambda: False)
    assert type(chimera.select_solver(chimera.GridDAG((9, 9)), device="cuda").solver) is chimera.Dense


def test_the_device_of_a_mix_decides(monkeypatch):
    found = []
    monkeypatch.setattr(
        functional, "select_solver", lambda *args: found.append(args[-1]) or select.select_solver(*args)
    )
    graph = chimera.Graph(3, [[0, 1, 2], [1, 2, 0]])
    chimera.mix(graph, torch.zeros(1, 3), *torch.zeros(2, 1, 3, 2), torch.zeros(1, 3, 2))
    assert found == [torch.device("cpu")]


def test_small_mixes_go_through_the_mask_and_large_ones_through_states():
    assert chimera.select_solver(chimera.Line(32)).form == "mask"
    assert chimera.select_solver(chimera.Line(4096)).form == "state"
    assert chimera.select_solver(chimera.Grid((14, 14)).dags(), groups_per_head=1 / 12).form == "mask"
    assert chimera.select_solver(chimera.Grid((64, 64)).dags(), groups_per_head=1 / 12).form == "state"
    assert chimera.select_solver(zoo.molecule(150), 64, 16, 1 / 4).form == "mask"
    assert chimera.select_solver(zoo.molecule(1500), 64, 16, 1 / 4).form == "state"
    assert chimera.select_solver(chimera.batch([zoo.molecule(150)] * 10), 64, 16, 1 / 4).form == "mask"
    assert chimera.select_solver(chimera.Grid((200, 200)), 16, 16, 1 / 4).form == "state"


def test_several_topologies_have_a_solver_each():
    choice = chimera.select_solver([chimera.Line(6), chimera.Grid((2, 3))])
    assert [type(s) for s in choice.solvers] == [chimera.Sweep, chimera.SparseLU]
    with pytest.raises(ValueError, match="a solver each"):
        choice.solver  # noqa: B018


@pytest.mark.parametrize("solver", [chimera.Sweep(), chimera.Squaring()])
def test_a_solver_that_does_not_fit_says_why(solver):
    with pytest.raises(
        chimera.TopologyError, match=rf"{type(solver).__name__} cannot treat .*cycles.*leave the solver"
    ):
        chimera.select_solver(chimera.Grid((3, 3)), solver=solver)


def test_a_graph_whose_factors_do_not_fit_is_refused_with_their_size(monkeypatch):
    for module in (select, elimination):
        monkeypatch.setattr(module, "MAX_ENTRIES", 1000)
    with pytest.raises(chimera.TopologyError, match=r"no exact solver fits .* entries, .* GB .*Neumann") as caught:
        chimera.select_solver(zoo.random_graph(60, 200))
    assert "leave the solver" not in str(caught.value)


def test_the_choice_never_approximates():
    for topology in zoo.ZOO.values():
        assert not isinstance(chimera.select_solver(topology).solver, chimera.Neumann)


def test_the_series_takes_masks_only_while_they_are_small():
    def form(*sizes):
        trees = [zoo.random_tree(size) for size in sizes]
        return chimera.select_solver(chimera.batch(trees), 64, 64, 1.0, chimera.Neumann(64)).form

    assert form(300) == form(300, 20, 20) == form(2000) == "mask"
    assert form(2100) == form(1500, 1500) == "state"
