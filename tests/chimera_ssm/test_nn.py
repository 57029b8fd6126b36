"""Layers under torch.compile and torch.export: eager values and gradients, on the topology that is given."""

import shutil
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
import chimera_ssm as chimera
from chimera_ssm.cpu.availability import disable_kernels
from tests import zoo

pytestmark = pytest.mark.slow


DIM, T = 16, 12
KINDS = {
    "line": (chimera.OnLine(), chimera.Line(T)),
    "reversed line": (chimera.OnLine(), chimera.Line(T, reverse=True)),
    "two lines": (chimera.OnTwoLines(), chimera.UndirectedLine(T)),
    "undirected line": (chimera.OnUndirectedLine(), chimera.UndirectedLine(T)),
    "image": (chimera.OnGrid(), chimera.Grid((3, 4))),
    "image, read row after row": (chimera.OnRaster(), chimera.Grid((3, 4))),
    "image, undirected": (chimera.OnUndirectedGrid(), chimera.Grid((3, 4))),
    "dag": (chimera.OnDAG(), zoo.random_dag(T, 20)),
    "graph as dags": (chimera.OnDAG(), zoo.random_graph(T, 14)),
    "graph": (chimera.OnGraph(), zoo.random_graph(T, 14)),
    "lines": (chimera.OnLine(), chimera.batch([chimera.Line(5), chimera.Line(7)])),
    "images": (chimera.OnGrid(), chimera.batch([chimera.Grid((2, 2)), chimera.Grid((2, 4))])),
    "graphs as dags": (chimera.OnDAG(), chimera.batch([zoo.random_graph(5, 6), zoo.random_graph(7, 8)])),
    "with and without cycles": (chimera.OnDAG(), chimera.batch([zoo.random_graph(5, 6), zoo.random_dag(7, 9)])),
    "graphs": (chimera.OnGraph(), chimera.batch([zoo.random_graph(5, 6), zoo.random_graph(7, 8)])),
}


class On(nn.Module):
    """A layer on one topology, as `torch.export` wants it: with tensors for arguments."""

    def __init__(self, layer, topology):
        super().__init__()
        self.layer, self.topology = layer, topology

    def forward(self, x):
        return self.layer(x, self.topology)


@pytest.fixture(autouse=True)
def _forget_compiled_functions():
    torch._dynamo.reset()


def build(name, **options):
    kind, topology = KINDS[name]
    torch.manual_seed(0)
    return chimera.Chimera(DIM, 2, 4, kind=kind, **options).double(), topology


def features(*lead, nodes=T):
    return torch.randn(*lead, nodes, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def check(layer, *args, run=None, backend="aot_eager"):
    """Values and all gradients of the compiled layer are those of the eager one."""
    run = torch.compile(layer, fullgraph=True, backend=backend) if run is None else run
    leaves = [*layer.parameters(), *(a for a in args if isinstance(a, torch.Tensor) and a.requires_grad)]
    results = []
    for function in (run, layer):
        y = function(*args)
        results.append((y, *torch.autograd.grad(y.square().sum(), leaves)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", KINDS)
def test_a_compiled_layer_is_the_eager_one(name):
    check(*build(name)[:1], features(3).requires_grad_(), KINDS[name][1])


@pytest.mark.parametrize("name", ["dag", "graph as dags", "with and without cycles", "graph"])
def test_masks_and_edge_features(name):
    layer, topology = build(name, edge_dim=3)
    edges = torch.randn(topology.num_edges, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(3, T, generator=torch.Generator().manual_seed(2)) < 0.7
    check(layer, features(3).requires_grad_(), topology, edges, mask)


@pytest.mark.parametrize("name", ["line", "undirected line", "graph"])
def test_without_kernels(name):
    layer, topology = build(name)
    with disable_kernels():
        check(layer, features(3).requires_grad_(), topology)


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler, and g++ is not found")
def test_by_inductor():
    layer, topology = build("graph")
    check(layer, features(3).requires_grad_(), topology, backend="inductor")


def test_an_explicit_solver():
    layer, topology = build("graph", solver=chimera.Neumann(terms=3))
    check(layer, features(3).requires_grad_(), topology)


def test_autocast():
    layer, topology = build("line")
    layer, x = layer.float(), features(3).float()
    compiled_layer = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = compiled_layer(x, topology), layer(x, topology)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)
    found.float().sum().backward()


def test_a_topology_of_the_same_size_is_not_taken_for_another():
    layer, topology = build("graph")
    counter = CompileCounterWithBackend("aot_eager")
    run = torch.compile(layer, fullgraph=True, backend=counter)
    other = topology.flip()
    assert other.num_edges == topology.num_edges
    check(layer, features(3), topology, run=run)
    check(layer, features(3), other, run=run)
    assert counter.frame_count == 2
    check(layer, features(3), zoo.random_graph(T, 14), run=run)  # equal to the first, and built anew
    check(layer, features(3), zoo.random_graph(T, 14).flip(), run=run)
    assert counter.frame_count == 2


def test_a_layer_of_pyg_breaks_where_it_finds_its_graph():
    layer = chimera.ChimeraConv(DIM, num_heads=2, state_size=4, edge_dim=3).double()
    run = torch.compile(layer, backend="aot_eager")
    edges = torch.tensor([[0, 1, 1, 2, 4, 3, 0], [1, 0, 2, 1, 3, 4, 1]])  # one of them twice
    batch, edge_attr = torch.tensor([0, 0, 0, 1, 1]), torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    for found in (edges, edges.roll(1, dims=1), edges.flip(0), edges):
        check(layer, features(nodes=5).requires_grad_(), found, edge_attr, batch, run=run)


def test_any_batch_size():
    layer, topology = build("graph")
    counter = CompileCounterWithBackend("aot_eager")
    run = torch.compile(layer, fullgraph=True, backend=counter, dynamic=True)
    check(layer, features(7), topology, run=run)
    first = counter.frame_count
    for size in (11, 13):
        check(layer, features(size), topology, run=run)
    assert counter.frame_count == first


def test_topologies_made_inside():
    """As models do that read the size from their input, which is symbolic here."""
    on_line, on_grid = build("line")[0], build("image")[0]

    def model(x):
        y = on_line(x.flatten(0, 2), chimera.batch([chimera.Line(x.shape[1] * x.shape[2])] * x.shape[0]))
        return on_grid(y.view(x.flatten(1, 2).shape), chimera.Grid(x.shape[1:3]).flip())

    run = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in [(3, 4), (4, 3)]:
        x = torch.randn(2, *shape, DIM, dtype=torch.float64)
        torch.testing.assert_close(run(x), model(x))


def test_the_recurrent_form():
    layer, _ = build("line")
    run = torch.compile(layer.step, fullgraph=True, backend="aot_eager")
    x, state, expected = features(3), None, None
    for t in range(3):
        y, state = run(x[:, t], state)
        z, expected = layer.step(x[:, t], expected)
        torch.testing.assert_close(y, z)


def test_a_block_drops_whole_parts():
    layer, topology = build("graphs")
    block = chimera.Block(DIM, layer, drop_path=0.5).double()
    x = features(8)
    change = torch.compile(block, fullgraph=True, backend="aot_eager")(x, topology) - x
    parts = torch.stack([(part != 0).flatten(1).any(1) for part in change.split([5, 7], dim=1)])
    assert parts.any()
    assert not parts.all()


@pytest.mark.parametrize(("name", "strict"), [("undirected line", True), ("graphs as dags", False)])
def test_an_exported_layer_runs_in_another_process(name, strict, tmp_path):
    layer, topology = build(name)
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(On(layer, topology), (features(3),), dynamic_shapes=({0: batch},), strict=strict)
    torch.export.save(program, tmp_path / "layer.pt2")
    torch.save((features(5), layer(features(5), topology)), tmp_path / "values.pt")
    code = (
        "import sys, torch, chimera_ssm.ops\n"
        "x, y = torch.load(sys.argv[2])\n"
        "torch.testing.assert_close(torch.export.load(sys.argv[1]).module()(x), y)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "layer.pt2", tmp_path / "values.pt"], check=True, timeout=200
    )


def test_the_first_of_equal_topologies_may_go():
    edges = [[0, 1, 2, 4], [1, 2, 0, 3]]
    first, second = chimera.Graph(5, edges), chimera.Graph(5, edges)
    del first
    layer, x = chimera.Chimera(8), torch.randn(5, 8)
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager")(x, second), layer(x, second))
