"""Plain operators: the dense truth on every topology, `torch.func`, and exported programs of all models."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.func import functional_call, grad, jacrev, jvp, vmap

import chimera_ssm as chimera
from chimera_ssm.ops import plain
from chimera_ssm.topology import cache
from tests import zoo

F64 = torch.double
LINES = {"line": chimera.Line(9), "line, reversed": chimera.Line(6, reverse=True), "one node": chimera.Line(1)}


def dense(topology, weight):
    source, target = topology.edge_index
    A = weight.new_zeros(*weight.shape[:-1], topology.num_nodes, topology.num_nodes)
    for e, (j, i) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        unit = torch.zeros_like(A)
        unit[..., i, j] = 1
        A = A + weight[..., e, None, None] * unit
    return torch.linalg.inv(torch.eye(topology.num_nodes, dtype=F64) - A)


@pytest.mark.parametrize("name", [*LINES, "grid 5×3 from (1, 0)", "directed graph with loops", "graphs", "no edges"])
def test_a_mask_and_its_gradient(name):
    topology = LINES[name] if name in LINES else zoo.ZOO.get(name, zoo.ZOO["dag 63"])
    torch.manual_seed(0)
    weight = (torch.rand(2, 3, topology.num_edges, dtype=F64) - 0.4) / max(1, int(topology.in_degree.max()))
    weight[..., ::4] = weight[..., ::4].abs() * torch.tensor([1, 0, 1])[:, None]  # negative ones and zeros
    weight.requires_grad_()
    found, expected = plain.mask_plain(topology, weight, None), dense(topology, weight)
    torch.testing.assert_close(found, expected)
    if name not in LINES and topology.num_edges:  # of a line, weights that are zero have no derivative here
        g = torch.randn_like(expected)
        torch.testing.assert_close(
            *(torch.autograd.grad((x * g).sum(), weight, allow_unused=True)[0] for x in (found, expected))
        )


def test_the_gradient_on_a_line():
    weight = (torch.rand(2, 7, dtype=F64) - 0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: plain.mask_plain(chimera.Line(8), w, None), weight)


def test_the_series_for_onnx():
    weight = torch.rand(2, 3, dtype=F64) * 0.98
    ring = chimera.Graph(3, [[0, 1, 2], [1, 2, 0]])
    A = torch.eye(3, dtype=F64) - torch.linalg.inv(dense(ring, weight))
    torch.testing.assert_close(plain._series(A), dense(ring, weight))


KINDS = {
    "graph": (chimera.OnGraph(), chimera.Grid((3, 2))),
    "mean": (chimera.OnGraph(aggregate="mean"), chimera.Graph(6, [[0, 1, 2], [1, 2, 0]])),
    "dags": (chimera.OnDAG(), chimera.Graph(6, [[0, 1, 2], [1, 2, 0]])),
    "line": (chimera.OnLine(), chimera.Line(6)),
    "two lines": (chimera.OnTwoLines(), chimera.UndirectedLine(6)),
    "undirected line": (chimera.OnUndirectedLine(), chimera.UndirectedLine(6)),
    "grid": (chimera.OnGrid(), chimera.Grid((3, 2))),
}


@pytest.mark.parametrize("name", KINDS)
def test_transformations_of_torch_func(name):
    kind, topology = KINDS[name]
    torch.manual_seed(0)
    layer = chimera.Chimera(8, num_heads=2, state_size=3, kind=kind).double()
    x, parameters = torch.randn(3, 6, 8, dtype=F64), dict(layer.named_parameters())
    torch.testing.assert_close(vmap(lambda v: layer(v, topology))(x), layer(x, topology))
    torch.testing.assert_close(functional_call(layer, parameters, (x, topology)), layer(x, topology))

    def first(v):
        return layer(v, topology)[0]

    expected = torch.autograd.functional.jacobian(first, x[0])
    torch.testing.assert_close(jacrev(first)(x[0]), expected)
    torch.testing.assert_close(jvp(first, (x[0],), (x[1],))[1], (expected * x[1]).sum((1, 2)))
    each = vmap(grad(lambda p, v: functional_call(layer, p, (v, topology)).square().sum()), (None, 0))(parameters, x)
    layer(x[1], topology).square().sum().backward()
    for key, parameter in layer.named_parameters():
        torch.testing.assert_close(each[key][1], parameter.grad)


def test_a_truncated_series_stays_truncated():
    topology, x = chimera.Grid((3, 2)), torch.randn(2, 6, 8, dtype=F64)
    for solver in (chimera.Neumann(2), chimera.Neumann(), chimera.Neumann(3, squared=True)):
        layer = chimera.Chimera(8, solver=solver).double()
        torch.testing.assert_close(vmap(lambda v, layer=layer: layer(v, topology))(x), layer(x, topology))


class Logits(nn.Module):
    """A model as a function of tensors alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, *args):
        return self.model(*args).logits


def text(variant):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    model = Logits(chimera.ChimeraForMaskedLM(chimera.ChimeraTextConfig(**sizes, variant=variant)))

    def inputs(rows, length):
        mask = torch.ones(rows, length, dtype=torch.long)
        mask[0, length // 2 :] = 0
        return torch.randint(30, (rows, length)), mask

    sizes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    return model, [inputs(2, 7), inputs(3, 20)], ((sizes, sizes),)


def causal():
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "num_heads": 2}
    model = Logits(chimera.ChimeraForCausalLM(chimera.ChimeraCausalConfig(**sizes)))
    mask = torch.ones(1, 12, dtype=torch.long)
    mask[0, 4:7] = 0
    inputs = [(torch.randint(30, (2, 7)), torch.ones(2, 7, dtype=torch.long)), (torch.randint(30, (1, 12)), mask)]
    sizes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    return model, inputs, ((sizes, sizes),)


def image(topology):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "patch_size": 4, "num_labels": 3}
    model = Logits(chimera.ChimeraForImageClassification(chimera.ChimeraImageConfig(**sizes, topology=topology)))
    sizes = {0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    return (
        model,
        [(torch.randn(2, 3, 12, 20),), (torch.randn(3, 3, 21, 16),), (torch.randn(1, 3, 16, 16),)],
        ((sizes,),),
    )


def rings(*sizes):
    """Edges of rings side by side, in both directions, and the ring of each node."""
    edges, start = [], 0
    for size in sizes:
        node = torch.arange(size)
        edges += [start + torch.stack([node, (node + 1) % size]), start + torch.stack([(node + 1) % size, node])]
        start += size
    return torch.cat(edges, dim=1), torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def graphs():
    torch.manual_seed(0)
    model = Logits(chimera.create_model("chimera_graph_test"))
    config = model.model.config

    def inputs(*sizes):
        edges, batch = rings(*sizes)
        x, edge_attr = (
            torch.stack([torch.randint(n, (rows,)) for n in values], dim=1)
            for values, rows in ((config.node_features, len(batch)), (config.edge_features, edges.shape[1]))
        )
        return x, edges, edge_attr, batch

    dynamic = ({0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}, {0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    return model, [inputs(4, 5), inputs(7, 3, 6)], (dynamic,)


def graph_conv():
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    inputs = [(torch.randn(sum(sizes), 8), rings(*sizes)[0]) for sizes in ((7,), (4, 9))]
    return mixing(chimera.ChimeraConv(8, 5)), inputs, {"x": {0: Dim.DYNAMIC}, "edge_index": {1: Dim.DYNAMIC}}


def mixing(conv):
    """The layer as after training: the mix starts at zero."""
    nn.init.normal_(conv.mixer.out_proj.weight)
    return conv.eval()


def bipartite():
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    inputs = [
        ((torch.randn(sources, 8), torch.randn(targets, 6)), torch.stack([torch.arange(9) % sources, torch.arange(9)]))
        for sources, targets in ((4, 9), (7, 11))
    ]
    sizes = {"x": ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}), "edge_index": {1: Dim.AUTO}}
    return mixing(chimera.ChimeraConv((8, 6), 5)), inputs, sizes


MODELS = {
    "text": lambda: text("dag"),
    "text, undirected": lambda: text("ug"),
    "text, causal": causal,
    "image": lambda: image("2d"),
    "image, lines": lambda: image("fwd_rev"),
    "image, undirected": lambda: image("undirected"),
    "graphs": graphs,
    "graph layer": graph_conv,
    "bipartite graphs": bipartite,
}


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", [pytest.param(k, marks=() if k in ("text", "graph layer") else SLOW) for k in MODELS])
def test_exported_programs_take_inputs_of_other_sizes(name):
    model, inputs, dynamic = MODELS[name]()
    program = torch.export.export(model, inputs[0], dynamic_shapes=dynamic)
    assert "chimera_ssm" not in program.graph_module.code  # so that it loads without any import
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for args in inputs:
        torch.testing.assert_close(loaded(*args), model(*args))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text", "text, undirected", "text, causal", "image", "graphs", "graph layer"])
def test_onnx(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, inputs, dynamic = MODELS[name]()
    torch.onnx.export(model, inputs[0], dynamic_shapes=dynamic, dynamo=True, verbose=False).save(tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx")
    names = [x.name for x in session.get_inputs()]
    for args in inputs:
        (found,) = session.run(None, {key: x.numpy() for key, x in zip(names, args, strict=True)})
        np.testing.assert_allclose(found, model(*args).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_onnx_of_a_layer_on_a_fixed_topology(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")

    class OnGrid(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.grid = chimera.Chimera(16), chimera.Grid((3, 4))

        def forward(self, x):
            return self.layer(x, self.grid)

    model, x = OnGrid().eval(), torch.randn(2, 12, 16)
    torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(tmp_path / "m.onnx")
    (found,) = runtime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x.numpy()})
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # sizes become constants, as they should
@pytest.mark.parametrize("name", ["text", "text, undirected", "text, causal", "image"])
def test_traced_by_torch_jit(name):
    cache.clear()  # what is derived from a topology during the trace is not part of it
    model, inputs, _ = MODELS[name]()
    traced = torch.jit.trace(model, inputs[0])
    other = tuple(x.flip(0) for x in inputs[0])
    torch.testing.assert_close(traced(*other), model(*other))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["graphs", "graph layer"])
def test_edges_are_an_input_of_a_traced_program(name):
    model, inputs, _ = MODELS[name]()
    traced = torch.jit.trace(model, inputs[0])
    for args in inputs:
        torch.testing.assert_close(traced(*args), model(*args))


def test_transformed_mixes_continue_from_states():
    torch.manual_seed(0)
    layer, line = chimera.Chimera(8, num_heads=2, state_size=3, kind=chimera.OnLine()).double(), chimera.Line(6)
    x = torch.randn(3, 1, 6, 8, dtype=F64)
    _, state = layer(x[0], line, return_state=True)

    def run(v):
        y, after = layer(v, line, state=state, return_state=True)
        return y, after.hidden

    y, hidden = vmap(run)(x)
    for k in range(3):
        expected, leaving = layer(x[k], line, state=state, return_state=True)
        torch.testing.assert_close(y[k], expected)
        torch.testing.assert_close(hidden[k], leaving.hidden)
    weight, B, V = torch.rand(2, 5, dtype=F64), torch.randn(1, 6, 3, dtype=F64), torch.randn(2, 6, 4, dtype=F64)
    backward = chimera.Line(6, reverse=True), weight, B, B, V, None, None, torch.randn(2, 3, 4, dtype=F64), True
    for found, expected in zip(plain.mix_states_plain(*backward[:6], backward[7]), chimera.mix(*backward), strict=True):
        torch.testing.assert_close(found, expected)
    with pytest.raises(chimera.TopologyError, match="continue a single Line from a state, found Batch"):
        plain.mix_states_plain(chimera.batch([line, line]), weight, B, B, V, None, None)


def test_programs_load_in_another_process_with_the_import_that_the_docs_name(tmp_path):
    model, ids = chimera.create_model("chimera_text_test").eval(), torch.randint(30, (2, 7))
    dynamic = ({1: Dim.DYNAMIC},)
    torch.export.save(torch.export.export(model, (ids,)), tmp_path / "fixed.pt2")
    torch.export.save(torch.export.export(model, (ids,), dynamic_shapes=dynamic), tmp_path / "dynamic.pt2")
    torch.export.save(torch.export.export(Logits(model), (ids,), dynamic_shapes=(dynamic,)), tmp_path / "logits.pt2")
    code = (
        "import sys, torch\n"
        "torch.export.load('logits.pt2')\n"
        "assert 'chimera_ssm' not in sys.modules\n"
        "import chimera_ssm.models\n"
        "torch.export.load('dynamic.pt2')\n"
        "torch.export.load('fixed.pt2').module()(torch.ones(2, 7, dtype=torch.long)).logits\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(chimera.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert out.returncode == 0, out.stderr
