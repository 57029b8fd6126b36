"""Graph models: presets, invariances, encoders, saving and loading, baselines."""

import json
import warnings

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
import chimera_ssm as chimera
from chimera_ssm import ChimeraForGraphs, ChimeraGraphConfig, ChimeraGraphModel
from chimera_ssm.models.graph import heads as losses
from chimera_ssm.models.graph.configuration import ATOM, BOND
from chimera_ssm.models.graph.convolutions import GCNPlus, GraphStructure
from chimera_ssm.models.graph.norms import GraphNorm
from chimera_ssm.topology.from_edge_index import from_edge_index

pytest.importorskip("torch_geometric")

VARIANTS = {
    "chimera": {},
    "parallel, gated": {"arrangement": "parallel"},
    "paper": {"arrangement": "parallel", "local": "gcn", "norm": "layer", "gate": False, "injection": "step"},
    "authors": {"norm": "graph", "conv": False, "injection": "projected", "normalize": "column", "shared_bias": True},
    "gine beside": {"local": "gine", "pooling": "sum"},
    "gcn_plus before": {"local": "gcn_plus", "mlp_ratio": 0},
    "gcn_plus beside": {"local": "gcn_plus", "arrangement": "parallel"},
    "identity": {"resolvent": "identity"},
    "alone": {"local": "none", "edge_features": None},
    "layer norms": {"norm": "layer", "pooling": "max"},
    "neumann": {"resolvent": "neumann"},
    "nodes": {"level": "node", "problem_type": "single_label_classification"},
    "gcn": {"mixer": "gcn"},
    "gcn_plus": {"mixer": "gcn_plus"},
    "gine": {"mixer": "gine"},
    "gated_gcn": {"mixer": "gated_gcn"},
    "gps": {"mixer": "gps"},
    "gps without edges": {"mixer": "gps", "edge_features": None},
}
ALL = pytest.mark.parametrize("variant", VARIANTS)


def build(variant="chimera", **overrides):
    torch.manual_seed(0)
    return chimera.create_model("chimera_graph_test", **{**VARIANTS[variant], **overrides})


def molecules(seed=0):
    """Three graphs with the features of atoms and bonds; the second has an edge twice, the third has none."""
    draw = torch.Generator().manual_seed(seed)
    ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    ring = torch.cat([ring, ring.flip(0)], dim=1)
    path = torch.tensor([[6, 7, 7, 8, 7], [7, 6, 8, 7, 8]])
    edge_index = torch.cat([ring, path], dim=1)
    x = torch.stack([torch.randint(n, (11,), generator=draw) for n in ATOM], dim=1)
    edge_attr = torch.stack([torch.randint(n, (17,), generator=draw) for n in BOND], dim=1)
    return x, edge_index, edge_attr, torch.tensor([0] * 6 + [1] * 3 + [2] * 2)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        # The paper prints 499k, 504k and 489k for three of the authors' networks.
        ("peptides_func_authors", 499_114),
        ("peptides_struct_authors", 504_331),
        ("pascalvoc_sp_authors", 485_589),
        ("coco_sp_authors", 489_489),
        ("peptides_func_paper", 492_762),
        ("peptides_struct_paper", 479_851),
        ("pascalvoc_sp_paper", 452_533),
        ("coco_sp_paper", 456_433),
        ("peptides_func", 477_692),
        ("peptides_struct", 481_823),
        ("pascalvoc_sp", 400_981),
        ("coco_sp", 410_881),
        ("test", 6_871),
    ],
)
def test_sizes_of_presets(name, count):
    with torch.device("meta"):
        model = chimera.create_model(f"chimera_graph_{name}")
    assert model.num_parameters() == count
    assert count < 500_000 or "struct_authors" in name


@ALL
def test_permutations_change_the_order_and_nothing_else(variant):
    model = build(variant).double().eval()
    x, edge_index, edge_attr, batch = molecules()
    by_graph = model.config.level == "graph"

    def run(x, edge_index, edge_attr, batch, weight):
        model.zero_grad()
        logits = model(x, edge_index, edge_attr, batch).logits
        (logits * weight).sum().backward()
        return logits, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    weight = torch.randn(3 if by_graph else 11, 3, dtype=torch.double)
    logits, gradients = run(x, edge_index, edge_attr, batch, weight)
    order = torch.tensor([10, 9, 7, 6, 8, 3, 1, 5, 0, 2, 4])
    mixed = torch.randperm(17)
    outputs = torch.tensor([2, 1, 0]) if by_graph else order
    other, same = run(
        x[order], order.argsort()[edge_index[:, mixed]], edge_attr[mixed], torch.tensor([0, 0, 1, 1, 1] + [2] * 6),
        weight[outputs],
    )  # fmt: skip
    torch.testing.assert_close(other, logits[outputs])
    for found, expected in zip(same, gradients, strict=True):
        torch.testing.assert_close(found, expected)
    for g in range(3):
        here, own = batch == g, batch[edge_index[0]] == g
        start = int(here.nonzero()[0])
        alone = model(x[here], edge_index[:, own] - start, edge_attr[own]).logits
        torch.testing.assert_close(alone, logits[g : g + 1] if by_graph else logits[here])


@pytest.mark.parametrize("arrangement", ["sequential", "parallel"])
def test_the_model_is_what_it_says(arrangement):
    """Encoders, a local layer and Chimera, feed-forward, norm, mean, head."""
    model = build(arrangement=arrangement, local="gated_gcn", mlp_ratio=2, final_norm=True).double().eval()
    x, edge_index, edge_attr, _ = molecules()
    body = model.chimera
    offset, bonds = torch.tensor([0, *ATOM[:-1]]).cumsum(0), torch.tensor([0, *BOND[:-1]]).cumsum(0)
    h = body.node_encoder.embedding.weight[x + offset].sum(1)
    e = body.edge_encoder.embedding.weight[edge_attr + bonds].sum(1)

    def mix(layer, h, e):
        merged, mean = chimera.merge_edges(edge_index, e)
        return layer.mixer(layer.mixer_norm(h), chimera.Graph(11, merged), mean)

    graphs = GraphStructure(None, edge_index, None)
    for layer in body.layers:
        normed = layer.local.norm(h)
        y, updated = layer.local.conv(normed, e, graphs)
        if arrangement == "sequential":
            h = h + torch.nn.functional.gelu(layer.local.out_norm(normed + y))
            h = h + mix(layer, h, updated)
        else:
            h = h + y + mix(layer, h, e)
        h, e = h + layer.mlp(layer.mlp_norm(h)), updated
    features = body.norm(h).mean(0, keepdim=True)
    for layer in model.head.hidden:
        features = features + layer(features)
    torch.testing.assert_close(model(x, edge_index, edge_attr).logits, model.head.out(features))


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_pooling(pooling):
    model = build(pooling=pooling, head_layers=1).eval()
    x, edge_index, edge_attr, batch = molecules()
    found = model(x, edge_index, edge_attr, batch, batch_size=4)
    nodes = found.last_hidden_state
    pooled = [getattr(nodes[batch == g], "amax" if pooling == "max" else pooling)(0) for g in range(3)]
    pooled.append(torch.zeros(16))  # a graph without nodes
    torch.testing.assert_close(found.logits, model.head.out(torch.stack(pooled)))


def test_norms_of_graphs_are_those_of_pyg():
    from torch_geometric.nn import LayerNorm

    ours, theirs = GraphNorm(16).double(), LayerNorm(16, mode="graph").double()
    with torch.no_grad():
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            b.copy_(a.uniform_(-1, 1))
    x, batch = torch.randn(11, 16, dtype=torch.double), molecules()[3]
    torch.testing.assert_close(ours(x, batch), theirs(x, batch))
    # Without a batch PyG adds eps to the deviation instead of the variance.
    torch.testing.assert_close(ours(x), theirs(x, torch.zeros_like(batch)))
    assert ours(x[:0], batch[:0]).shape == (0, 16)


def test_batch_norms_take_single_nodes_and_no_edges_in_training():
    model = build().train()
    x, _, edge_attr, _ = molecules()
    model(x[:1], torch.empty(2, 0, dtype=torch.long), edge_attr[:0], labels=torch.ones(1, 3)).loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_gcn_plus_adds_up_edges_and_neighbours():
    conv = GCNPlus(16)
    x, edge_index, edge = torch.randn(11, 16), molecules()[1], torch.randn(17, 16)
    expected = torch.zeros(11, 16)
    for e, (j, i) in enumerate(edge_index.t().tolist()):
        expected[i] += (conv.linear(x[j]) + edge[e]).relu()
    torch.testing.assert_close(conv(x, edge_index, edge), expected)


def test_models_of_another_arrangement_are_refused(tmp_path):
    build(arrangement="parallel", local="gcn").save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "arrangement": "sequential", "local": "gated_gcn"}))
    with pytest.raises(ValueError, match=r"weights do not fit the model: .* saved by another version of chimera-ssm"):
        ChimeraForGraphs.from_pretrained(tmp_path)


def test_features_of_molecules_are_those_of_ogb():
    features = pytest.importorskip("ogb.utils.features")
    assert list(ATOM) == features.get_atom_feature_dims()
    assert list(BOND) == features.get_bond_feature_dims()


def test_data_of_pyg():
    from torch_geometric.data import Batch, Data

    model = build().eval()
    x, edge_index, edge_attr, batch = molecules()
    one = Data(x=x[:6], edge_index=edge_index[:, :12], edge_attr=edge_attr[:12])
    empty = Data(x=x[:0], edge_index=edge_index[:, :0], edge_attr=edge_attr[:0])
    torch.testing.assert_close(model(one).logits, model(x, edge_index, edge_attr, batch).logits[:1])
    logits = model(Batch.from_data_list([one, one, empty])).logits
    torch.testing.assert_close(logits[:2], model(one).logits.expand(2, -1))
    assert logits.shape == (3, 3)


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_given_beside_data_of_pyg_wins(whole):
    from torch_geometric.data import Batch, Data

    model = build(resolvent="neumann", position_features=4).double().eval()
    model = model if whole else model.chimera
    x, edge_index, edge_attr, batch = molecules()
    data = Batch.from_data_list([
        Data(x=x, edge_index=edge_index, edge_attr=edge_attr, positions=torch.randn(11, 4))
    ])  # fmt: skip
    inputs = {"edge_index": edge_index, "edge_attr": edge_attr, "batch": None, "positions": data.positions}
    others = {
        "edge_index": edge_index.flip(0).roll(1, dims=1),
        "edge_attr": edge_attr.flip(0),
        "batch": batch,
        "positions": -data.positions,
    }
    before = model(data)[0]
    for name, other in others.items():
        found = model(data, **{name: other})[0]
        torch.testing.assert_close(found, model(x, **inputs | {name: other})[0])
        assert found.shape != before.shape or not torch.allclose(found, before)


@pytest.mark.slow
def test_a_compiled_model_breaks_where_it_finds_its_graphs():
    from torch_geometric.data import Batch, Data

    torch._dynamo.reset()
    model = build().double().eval()
    run = torch.compile(model, backend="aot_eager")
    x, edge_index, edge_attr, batch = molecules()
    data = Batch.from_data_list([Data(x=x, edge_index=edge_index, edge_attr=edge_attr)] * 2)
    for inputs in [(x, edge_index, edge_attr, batch), (x, edge_index.flip(0), edge_attr, batch), (data,)]:
        results = []
        for function in (run, model):
            logits = function(*inputs).logits
            results.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
        for found, expected in zip(*results, strict=True):
            torch.testing.assert_close(found, expected)


@ALL
def test_round_trip_is_bitwise(variant, tmp_path):
    model = build(variant, id2label={0: "a", 1: "b"}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    twin, info = ChimeraForGraphs.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert twin.config.to_dict().keys() == model.config.to_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(twin.state_dict()[name], value), name
    torch.testing.assert_close(twin.eval()(*molecules()).logits, model(*molecules()).logits)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), ChimeraGraphConfig)
    assert isinstance(AutoModel.from_pretrained(tmp_path), ChimeraGraphModel)


def test_what_a_checkpoint_lacks_is_initialised(tmp_path):
    model = build()
    kept = {n: v for n, v in model.state_dict().items() if not n.endswith(".D") and ".local." not in n}
    model.save_pretrained(tmp_path, state_dict=dict(kept))
    twin = ChimeraForGraphs.from_pretrained(tmp_path)
    for name, value in twin.state_dict().items():
        if name in kept:
            assert torch.equal(value, kept[name]), name
        elif name.endswith(".D"):
            assert (value == 1).all()
        else:
            assert value.abs().max() <= 1, name


def test_regression_is_in_units_of_the_targets():
    x, edge_index, edge_attr, batch = molecules()
    plain = build(problem_type="regression").eval()
    model = build(problem_type="regression", label_mean=[1.0, 2.0, 3.0], label_std=[2.0, 4.0, 8.0]).eval()
    labels = torch.randn(3, 3)
    labels[1, 2] = torch.nan
    raw = plain(x, edge_index, edge_attr, batch).logits
    found = model(x, edge_index, edge_attr, batch, labels=labels)
    std = torch.tensor([2.0, 4.0, 8.0])
    torch.testing.assert_close(found.logits, raw * std + torch.tensor([1.0, 2.0, 3.0]))
    errors = ((found.logits - labels).abs() / std).flatten()
    torch.testing.assert_close(found.loss, errors[~errors.isnan()].mean())


def test_losses():
    torch.manual_seed(0)
    logits, classes = torch.randn(8, 4), torch.tensor([0, 0, 0, 0, 1, 1, 3, -1])
    weight = torch.tensor([1 - 4 / 7, 1 - 2 / 7, 0, 1 - 1 / 7])
    nll = -logits.log_softmax(-1)[torch.arange(7), classes[:7]]
    expected = (weight[classes[:7]] * nll).sum() / weight[classes[:7]].sum()
    torch.testing.assert_close(losses.weighted_cross_entropy(logits, classes), expected)
    same = losses.weighted_cross_entropy(logits, torch.full((8,), 2))
    torch.testing.assert_close(same, -logits.log_softmax(-1)[:, 2].mean())
    assert losses.weighted_cross_entropy(logits, torch.full((8,), -1)) == 0
    labels = torch.randint(2, (8, 4)).float()
    p = logits.sigmoid()
    each = -(labels * p.log() + (1 - labels) * (1 - p).log())
    torch.testing.assert_close(losses.binary_cross_entropy(logits, labels), each.mean())
    labels[0, 0] = torch.nan
    torch.testing.assert_close(losses.binary_cross_entropy(logits, labels), each.flatten()[1:].mean())


@pytest.mark.parametrize("local", ["gated_gcn", "gcn_plus", "gcn", "none"])
@pytest.mark.parametrize("arrangement", ["sequential", "parallel"])
@pytest.mark.parametrize("mlp_ratio", [0, 2])
def test_a_layer_is_its_equation(local, arrangement, mlp_ratio):
    layer = build(local=local, arrangement=arrangement, mlp_ratio=mlp_ratio).eval().chimera.layers[0]
    _, edge_index, _, batch = molecules()
    x, edge, graphs = (
        torch.randn(11, 16),
        torch.randn(17, 16),
        GraphStructure(from_edge_index(edge_index, 11, batch), edge_index, batch),
    )
    near, updated = x, edge
    if local == "gcn_plus":
        near = layer.local.norm(layer.local.conv(x, edge_index, edge)).relu()
    elif local != "none":
        h = layer.local.norm(x)
        y, updated = (
            layer.local.conv(h, edge, graphs) if local == "gated_gcn" else (layer.local.conv(h, edge_index), edge)
        )
        near = x + (F.gelu(layer.local.out_norm(h + y)) if arrangement == "sequential" else y)
    features, bonds = (near, updated) if arrangement == "sequential" else (x, edge)
    expected = near + layer.mixer(
        layer.mixer_norm(features), graphs.pyg_topology.topology, graphs.pyg_topology.features(bonds)
    )
    if mlp_ratio:
        expected = expected + layer.mlp(layer.mlp_norm(expected))
    found, edge_found = layer(x, edge, graphs)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(edge_found, updated)


@pytest.mark.parametrize("edge_messages", [True, False])
def test_gated_gcn_updates_edges(edge_messages):
    conv = build(local="gated_gcn", edge_messages=edge_messages).eval().chimera.layers[0].local.conv
    x, edge_index, edge = torch.randn(11, 16), molecules()[1], torch.randn(17, 16)
    y, updated = conv(x, edge, GraphStructure(None, edge_index, None))
    at_target, at_source, own, value = conv.node(x).chunk(4, -1)
    for e, (j, i) in enumerate(edge_index.t().tolist()):
        opening = at_target[i] + at_source[j] + conv.edge(edge[e])
        torch.testing.assert_close(updated[e], edge[e] + conv.norm(opening[None])[0].relu())
    node = 7
    into = [(e, j) for e, (j, i) in enumerate(edge_index.t().tolist()) if i == node]
    gates = [torch.sigmoid(at_target[node] + at_source[j] + conv.edge(edge[e])) for e, j in into]
    messages = [value[j] + (conv.edge(edge[e]) if edge_messages else 0) for e, j in into]
    incoming = sum(g * m for g, m in zip(gates, messages, strict=True)) / (sum(gates) + 1e-6)
    torch.testing.assert_close(y[node], own[node] + incoming)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["chimera", "authors", "gps"])
def test_gradient_checkpointing_changes_nothing(variant):
    model = build(variant).train()

    def gradients():
        model.zero_grad()
        torch.manual_seed(3)
        model(*molecules(), labels=torch.ones(3, 3)).loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = gradients()
    model.gradient_checkpointing_enable()
    for found, expected in zip(gradients(), plain, strict=True):
        torch.testing.assert_close(found, expected)


def test_positions():
    model = build(position_features=4).eval()
    inputs, positions = molecules(), torch.randn(11, 4)
    found = model(*inputs, positions=positions).logits
    assert not torch.allclose(found, model(*inputs, positions=-positions).logits)
    with pytest.raises(ValueError, match=r"positions must have shape \[11, 4\], a row for each node, found \[11, 3\]"):
        model(*inputs, positions=positions[:, :3])
    with pytest.raises(
        ValueError,
        match=r"found position_features=4 and no positions",
    ):
        model(*inputs)


def test_positions_of_pyg():
    from torch_geometric.data import Data

    x, edge_index, edge_attr, _ = molecules()
    graph = Data(x=x, edge_index=edge_index, edge_attr=edge_attr, positions=torch.randn(11, 4))
    model = build(position_features=4).eval()
    expected = model(x, edge_index, edge_attr, positions=graph.positions).logits
    torch.testing.assert_close(model(graph).logits, expected)
    torch.testing.assert_close(
        model(graph, positions=-graph.positions).logits,
        model(x, edge_index, edge_attr, positions=-graph.positions).logits,
    )
    torch.testing.assert_close(model.chimera(graph)[0].mean(0), model(graph).last_hidden_state.mean(0))
    assert build().eval()(graph).logits.shape == (1, 3)  # a model without them does not read them


CLASSES = {"problem_type": "single_label_classification"}


def bad_x():
    x, *rest = molecules()
    return build()(x + 119, *rest)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: build(mixer="mlp"),
            "mixer must be one of chimera, gcn, gcn_plus, gine, gated_gcn, gps, .*found 'mlp'",
        ),
        (lambda: build(level="edge"), "level must be one of graph, node; found 'edge'"),
        (lambda: build(resolvent="fast"), "resolvent must be one of exact, neumann, dag"),
        (lambda: build(hidden_size=0), "hidden_size must be an integer of at least 1, found 0"),
        (lambda: build(node_features=[3, 0]), "node_features must be an integer of at least 1, found 0"),
        (lambda: build(dropout=1.0), "dropout must be from 0 to below 1"),
        (
            lambda: build("gps", hidden_size=16, num_heads=3),
            "divisible by num_heads for the attention of gps, found 16 features and 3 heads",
        ),
        (lambda: build(label_std=[1.0]), "label_std must have 3 entries, one per target, found 1"),
        (bad_x, r"features must be integers from 0 to below \[119, 5, .*\], found torch.int64 from"),
        (lambda: build()(molecules()[0][:, :3], *molecules()[1:]), r"expected 9 features .*, found \[3\]"),
        (lambda: build()(molecules()[0].float(), *molecules()[1:]), "found torch.float32"),
        (lambda: build()(*molecules()[:2]), "this model needs edge_attr"),
        (lambda: build()(molecules()[0]), "edge_index is missing: .* found Tensor"),
        (
            lambda: build()(*molecules(), batch_size=2),
            "batch_size must be at least 3, as batch numbers graphs from 0 to 2, found 2; leave it out",
        ),
        (lambda: build()(*molecules(), labels=torch.ones(3)), r"labels must have shape \[3, 3\], found \[3\]"),
        (
            lambda: build(**CLASSES)(*molecules(), labels=torch.tensor([0, 3, 1])),
            "classes must be below num_labels=3, found 3; build the model with more labels",
        ),
        (
            lambda: build(**CLASSES)(*molecules(), labels=torch.zeros(3, 1).long()),
            r"labels must have shape \[3\], a class each, found \[3, 1\]; remove the last dimension",
        ),
        (lambda: build(**CLASSES)(*molecules(), labels=torch.zeros(2).long()), r"shape \[3\], .* found \[2\]$"),
        (lambda: build(**CLASSES)(*molecules(), labels=torch.zeros(3)), r"must be int64, found torch.float32"),
        (lambda: build()(torch.empty(0, 9).long(), torch.empty(2, 0).long(), torch.empty(0, 3).long()), "no nodes"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
def test_it_learns():
    """What stands at one end of a path is asked at the other."""
    kind = {"level": "node", "problem_type": "single_label_classification"}
    model = build(num_labels=2, node_features=[3], edge_features=None, dropout=0.0, **kind)
    path = torch.stack([torch.arange(3), torch.arange(1, 4)])
    edge_index = torch.cat([torch.cat([path, path.flip(0)], 1) + 4 * g for g in range(8)], dim=1)
    x, labels, batch = torch.zeros(32, 1, dtype=torch.long), torch.full((32,), -1), torch.arange(32) // 4
    x[::4, 0], labels[3::4] = torch.arange(8) % 2 + 1, torch.arange(8) % 2
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(70):
        loss = model(x, edge_index, batch=batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_a_batch_without_nodes():
    from torch_geometric.data import Batch, Data

    empty = Data(x=torch.empty(0, 9).long(), edge_index=torch.empty(2, 0).long(), edge_attr=torch.empty(0, 3).long())
    with pytest.raises(ValueError, match="there are no nodes"):
        build()(Batch.from_data_list([empty]))


def test_a_misspelled_setting_is_named():
    with pytest.warns(UserWarning, match="has no setting 'hiden_size', did you mean 'hidden_size'\\? It has no effect"):
        ChimeraGraphConfig(hiden_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = ChimeraGraphConfig(num_labels=3, torch_dtype="float32", my_note="size 32", name_or_path="here")
        assert ChimeraGraphConfig.from_dict(again.to_dict()).my_note == "size 32"
