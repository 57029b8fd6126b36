"""`ChimeraConv`: invariances, batches, awkward graphs, and PyG's stacks."""

import sys

import pytest
import torch
from torch_geometric.nn import GCNConv
from torch_geometric.utils import remove_self_loops

import chimera_ssm as chimera
from chimera_ssm.topology import cache
from chimera_ssm.topology import from_edge_index as pyg_topology
from chimera_ssm.topology.cache import nbytes

KINDS = {
    "exact": {},
    "neumann": {"solver": chimera.Neumann(6)},
    "at the diameter": {"solver": chimera.Neumann()},
    "wide": {"out_channels": 12, "expand": 2, "gate": True},
}


def random_graph(nodes, edges, seed, undirected=True):
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, edges), generator=draw)
    return torch.cat([ends, ends.flip(0)], dim=1) if undirected else ends


def many(seed=0):
    """Awkward graphs in one batch: one node, no edges, no nodes, self-loops, duplicates, isolated nodes."""
    graphs = [
        (1, torch.empty(2, 0, dtype=torch.long)),
        (5, random_graph(5, 6, seed)),
        (4, torch.empty(2, 0, dtype=torch.long)),
        (0, torch.empty(2, 0, dtype=torch.long)),
        (7, torch.tensor([[0, 1, 1, 2, 2], [0, 2, 2, 1, 1]])),
        (9, random_graph(9, 12, seed + 1, undirected=False)),
    ]
    starts = torch.tensor([0] + [n for n, _ in graphs]).cumsum(0)
    edges = torch.cat([e + s for (_, e), s in zip(graphs, starts[:-1], strict=True)], dim=1)
    batch = torch.repeat_interleave(torch.arange(len(graphs)), torch.tensor([n for n, _ in graphs]))
    return graphs, edges, batch


def build(variant="exact", **options):
    torch.manual_seed(0)
    conv = chimera.ChimeraConv(8, num_heads=2, state_size=4, **{"edge_dim": 3, **KINDS[variant], **options}).double()
    torch.nn.init.normal_(conv.mixer.out_proj.weight)  # where the mix starts at zero, all tests would be of the mean
    return conv


def features(nodes, edges):
    draw = torch.Generator().manual_seed(5)
    return tuple(torch.randn(n, c, generator=draw, dtype=torch.double) for n, c in ((nodes, 8), (edges, 3)))


def run(conv, x, edges, edge_attr, batch, weight):
    """Values and all gradients, those of the weights last."""
    x, edge_attr = x.clone().requires_grad_(), edge_attr.clone().requires_grad_()
    y = conv(x, edges, edge_attr, batch)
    return [y, *torch.autograd.grad((y * weight).sum(), [x, edge_attr, *conv.parameters()])]


@pytest.mark.parametrize("kind", KINDS)
def test_permutations_change_the_order_and_nothing_else(kind):
    graphs, edges, batch = many()
    conv, (x, edge_attr) = build(kind), features(len(batch), edges.shape[1])
    weight = torch.randn(len(batch), conv.out_channels, dtype=torch.double)
    plain = run(conv, x, edges, edge_attr, batch, weight)
    torch.manual_seed(1)
    # the graphs in another order, the nodes of each in another order, and all edges of the batch mixed
    order = torch.cat([(batch == g).nonzero().flatten()[torch.randperm(graphs[g][0])] for g in (4, 1, 5, 0, 3, 2)])
    place, mixed = order.argsort(), torch.randperm(edges.shape[1])
    regrouped = torch.repeat_interleave(torch.arange(6), torch.tensor([graphs[g][0] for g in (4, 1, 5, 0, 3, 2)]))
    other = run(conv, x[order], place[edges[:, mixed]], edge_attr[mixed], regrouped, weight[order])
    torch.testing.assert_close(other[0], plain[0][order])
    torch.testing.assert_close(other[1], plain[1][order])
    torch.testing.assert_close(other[2], plain[2][mixed])
    for found, expected in zip(other[3:], plain[3:], strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", [*KINDS, "dags"])
def test_a_graph_alone_is_as_in_a_batch(kind):
    graphs, edges, batch = many()
    conv = build(kind=chimera.OnDAG()) if kind == "dags" else build(kind)
    x, edge_attr = features(len(batch), edges.shape[1])
    together = conv(x, edges, edge_attr, batch, batch_size=6)
    if kind not in ("at the diameter", "dags"):  # of one graph of many components, which it is without batch
        torch.testing.assert_close(conv(x, edges, edge_attr), together)
    for g, (_, own) in enumerate(graphs):
        here = batch[edges[0]] == g
        torch.testing.assert_close(conv(x[batch == g], own, edge_attr[here]), together[batch == g])


def test_it_is_the_mixer_on_merged_edges():
    edges, conv = random_graph(6, 20, 3, undirected=False), build(skip=False)
    x, edge_attr = features(6, 20)
    merged, mean = chimera.merge_edges(edges, edge_attr)
    assert merged.shape[1] < 20
    expected = conv.mixer(conv.lin(x), chimera.Graph(6, merged), mean)
    torch.testing.assert_close(conv(x, edges, edge_attr), expected)
    torch.testing.assert_close(conv(x, edges.int(), edge_attr), expected)


def test_dag_decomposition():
    conv = build(kind=chimera.OnDAG(), skip=False)
    _, edges, batch = many()
    x, edge_attr = features(len(batch), edges.shape[1])
    y = conv(x, edges, edge_attr, batch)
    wired = pyg_topology.from_edge_index(edges, len(batch), batch)
    torch.testing.assert_close(y, conv.mixer(conv.lin(x), wired.topology, wired.features(edge_attr)))
    assert not torch.allclose(y, build()(x, edges, edge_attr, batch))


def test_graphs_are_planned_once(monkeypatch):
    calls = []
    plan = chimera.Graph._plan_elimination
    monkeypatch.setattr(chimera.Graph, "_plan_elimination", lambda self, limit: calls.append(1) or plan(self, limit))
    cache.clear()
    wired, convert = [], pyg_topology._convert
    monkeypatch.setattr(pyg_topology, "_convert", lambda *args: wired.append(1) or convert(*args))
    convs = [build() for _ in range(3)]
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in (40, 41, 42)]
    for first, second in [(0, 1), (1, 2), (2, 0)] * 2:
        a, b = rings[first], rings[second]
        batch = torch.tensor([0] * a.shape[1] + [1] * b.shape[1])
        edges = torch.cat([a, b + a.shape[1]], dim=1)
        x, edge_attr = features(len(batch), edges.shape[1])
        for conv in convs:
            conv(x, edges, edge_attr, batch)
    assert len(calls) == 3
    assert len(wired) == 3


def test_batches_are_bounded_in_bytes_with_their_plans(monkeypatch):
    recent = cache.Recent(1 << 17), cache.Recent(1 << 17)
    monkeypatch.setattr(cache, "_singles", recent[0])
    monkeypatch.setattr(cache, "_unions", recent[1])
    conv = build(edge_dim=None)
    for size in (5, 300, 31, 32, 33, 34, 35):
        source = torch.arange(size)
        edges = torch.stack([source, torch.minimum(source // 5 * 5 + (source + 1) % 5, torch.tensor(size - 1))])
        conv(torch.randn(size, 8, dtype=torch.double), edges, batch=torch.arange(size) // 5)
        for kept in recent:
            assert kept.nbytes <= kept.capacity or len(kept.kept) == 1
    last = next(reversed(recent[1].kept.values()))
    assert nbytes(last) > nbytes(last.topology().elimination_plan(sys.maxsize)) > 1000
    assert sum(map(nbytes, recent[1].kept.values())) < 1 << 18


@pytest.mark.parametrize("batched", [False, True])
def test_what_is_found_in_inference_mode_serves_training(batched):
    edges = torch.tensor([[3, 0, 1, 4, 3], [4, 1, 2, 3, 4]])  # one edge twice, in no order of graphs
    batch = torch.tensor([0, 0, 0, 1, 1]) if batched else None
    conv, (x, edge_attr) = build(), features(5, 5)
    cache.clear()
    with torch.inference_mode():
        expected = conv(x, edges, edge_attr, batch)
    found, *grads = run(conv, x, edges, edge_attr, batch, torch.ones(5, 8))
    torch.testing.assert_close(found, expected)
    assert all(grad.isfinite().all() for grad in grads)


def test_in_stacks_of_pyg():
    nn = pytest.importorskip("torch_geometric.nn")
    edges = random_graph(9, 12, 1)
    x, edge_attr = features(9, 24)
    stack = nn.Sequential(
        "x, edge_index, edge_attr, batch",
        [
            (chimera.ChimeraConv(8, 6, edge_dim=3), "x, edge_index, edge_attr, batch -> x"),
            torch.nn.ReLU(),
            (chimera.ChimeraConv(6), "x, edge_index -> x"),
        ],
    )
    assert stack.float()(x.float(), edges, edge_attr.float(), torch.zeros(9, dtype=torch.long)).shape == (9, 6)
    gps = nn.GPSConv(8, chimera.ChimeraConv(8, edge_dim=3), heads=2).double()
    gps.reset_parameters()
    assert gps(x, edges, edge_attr=edge_attr).shape == (9, 8)


def test_parameters_are_drawn_anew():
    conv = build(out_channels=6)
    before = [p.clone() for p in conv.parameters()]
    conv.reset_parameters()
    changed = [not torch.equal(a, b) for a, b in zip(before, conv.parameters(), strict=True)]
    assert sum(changed) == len(before) - 3  # D, the norm and the bias of W begin with constants
    assert str(conv) == "ChimeraConv(8, 6, num_heads=2)"


def test_no_nodes_at_all():
    conv = chimera.ChimeraConv(8, 5)
    assert conv(torch.empty(0, 8), torch.empty(2, 0, dtype=torch.long)).shape == (0, 5)


def call(x=(4, 8), edges=((0, 1), (1, 2)), edge_attr=(2, 3), batch=None):
    edges = torch.tensor(edges) if isinstance(edges, tuple) else edges
    x, edge_attr = torch.zeros(*x), None if edge_attr is None else torch.zeros(*edge_attr)
    return build().float()(x, edges, edge_attr, None if batch is None else torch.tensor(batch))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": (4, 7)}, r"x must have shape \[nodes, 8\], found \[4, 7\]"),
        ({"edges": ((0, 4), (1, 2))}, r"edge 1 \(4 → 2\) is out of range: x has rows for the nodes 0 to 3"),
        ({"edges": ((0, 1), (1, -1))}, r"edge 1 \(1 → -1\) is out of range"),
        ({"edges": ((0.0, 1.0), (1.0, 2.0))}, "must hold integers, found torch.float32"),
        ({"edges": ((0, 1), (1, 2), (2, 3))}, r"must have shape \[2, E\], found \[3, 2\]"),
        ({"edges": torch.eye(2).to_sparse()}, "edge_index must be a tensor .*to_edge_index"),
        ({"batch": [0, 0, 0]}, r"batch must have shape \[4\], a graph for each node, found \[3\]"),
        ({"batch": [0, 1, 0, 1]}, "batch must be ascending"),
        ({"batch": [0, 0, 1, 1]}, r"edge 1 \(1 → 2\) leads from graph 0 to graph 1"),
        ({"edge_attr": (3, 3)}, r"shape \[2, 3\], a row for each of the 2 edges, found \[3, 3\]"),
        ({"edges": ((0, 0), (1, 1)), "edge_attr": (1, 3)}, r"a row for each of the 2 edges, found \[1, 3\]"),
        ({"edges": ((0, 0), (1, 1)), "edge_attr": (2, 4)}, r"must have shape \[2, 3\], .* found \[2, 4\]"),
        ({"edge_attr": (2,)}, r"must have shape \[2, 3\], .* found \[2\]"),
        ({"edge_attr": None}, r"edge_attr is missing: this layer was made with edge_dim=3; .* \[2, 3\]"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        call(**options)


def BIPARTITE():
    return chimera.ChimeraConv((8, 6), 4)


def pair(conv, x=None, edges=((0, 1), (2, 2)), batch=None):
    x = (torch.zeros(2, 8), torch.zeros(3, 6)) if x is None else x
    return conv(x, torch.tensor(edges), batch=batch)


class SparseTensor:
    """As that of torch_sparse: neither a tensor nor with the attributes of one."""


@pytest.mark.parametrize("edges", [torch.eye(4).to_sparse(), SparseTensor()], ids=["torch", "other"])
@pytest.mark.parametrize("x", [torch.zeros(4, 8), torch.zeros(4, 8).to_sparse()], ids=["dense", "sparse"])
def test_sparse_edges_are_told_how_to_be_converted(x, edges):
    with pytest.raises(ValueError, match=r"edge_index must be a tensor .* found .*[sS]parse.*utils.to_edge_index"):
        build()(x, edges, torch.zeros(4, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.ChimeraConv(-2, 8), "in_channels must be at least 1, or -1 to infer it .*, found -2"),
        (lambda: chimera.ChimeraConv((1, 2, 3), 8), "or a pair for bipartite graphs"),
        (lambda: chimera.ChimeraConv(-1), "in_channels=-1 needs out_channels"),
        (lambda: chimera.ChimeraConv((8, 8)), "needs out_channels; pass the number of output features"),
        (lambda: chimera.ChimeraConv(0), "in_channels must be at least 1, .* found 0"),
        (lambda: chimera.ChimeraConv(8, num_heads=1, heads=2), "heads is another name of num_heads: pass one"),
        (lambda: pair(chimera.ChimeraConv(8)), r"this layer has in_channels=8; build it with a pair of channels"),
        (lambda: pair(BIPARTITE(), batch=torch.zeros(5)), "batch is not supported with a pair"),
        (lambda: pair(BIPARTITE(), x=(torch.zeros(2, 8), None)), "target nodes are part of the graph"),
        (lambda: pair(BIPARTITE(), x=(torch.zeros(2, 8), torch.zeros(3, 4))), r"x\[1\] must have shape \[nodes, 6\]"),
        (lambda: pair(BIPARTITE(), edges=[[0], [3]]), "row 1 of edge_index must number the 3 target nodes .*, found 3"),
        (
            lambda: chimera.ChimeraConv(8)(torch.zeros(2, 8), torch.tensor([[0], [1]]), edge_weight=torch.ones(2)),
            r"edge_weight must have shape \[1\], a weight for each edge, found \[2\]",
        ),
        (
            lambda: chimera.ChimeraConv(8)(torch.zeros(2, 8), torch.tensor([[0, 0], [1, 1]]), torch.zeros(2, 3)),
            r"needs a layer with edge_dim, found edge_dim=None and edge_attr \[2, 3\]; weights .* by name: edge_w",
        ),
        (
            lambda: chimera.ChimeraConv(8)(torch.zeros(2, 8).long(), torch.tensor([[0], [1]])),
            "x must be floating point, found torch.int64; embed integers first",
        ),
        (
            lambda: chimera.ChimeraConv(8)(torch.zeros(2, 8).double(), torch.tensor([[0], [1]])),
            "x must be torch.float32, as the weights of the layer are, found torch.float64; convert x with",
        ),
        (
            lambda: chimera.ChimeraConv(-1, 8)(torch.zeros(2, 8).double(), torch.tensor([[0], [1]])),
            "x must be torch.float32, as the weights of the layer are, found torch.float64; convert x with",
        ),
        (lambda: pair(BIPARTITE(), x=(torch.zeros(2, 8), torch.zeros(3, 6).int())), r"x\[1\] must be floating point"),
        (lambda: chimera.ChimeraConv(8, kind=chimera.OnDAG), r"found the class OnDAG: write kind=OnDAG\(\)"),
        (
            lambda: chimera.ChimeraConv(8)(torch.zeros(2, 8).to_sparse(), torch.tensor([[0], [1]])),
            r"x must be a dense tensor, found torch.sparse_coo; .*to_dense",
        ),
    ],
)
def test_what_a_layer_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_edge_weights_of_one_and_zero():
    _, edges, batch = many()
    conv, (x, edge_attr) = build(), features(len(batch), edges.shape[1])
    plain = conv(x, edges, edge_attr, batch)
    torch.testing.assert_close(conv(x, edges, edge_attr, batch, edge_weight=torch.ones(edges.shape[1])), plain)
    merged, _ = chimera.merge_edges(edges, edge_attr)
    kept = torch.arange(merged.shape[1]) % 3 > 0
    (_, on_edges), weight = features(1, merged.shape[1]), kept.double()
    found = conv(x, merged, on_edges, batch, edge_weight=weight)
    torch.testing.assert_close(found, conv(x, merged[:, kept], on_edges[kept], batch))
    assert not torch.allclose(found, conv(x, merged, on_edges, batch))


def test_the_gradient_of_edge_weights():
    conv, edges = build(edge_dim=None), random_graph(5, 6, 0)
    x = features(5, 0)[0]
    weight = torch.rand(12, dtype=torch.double).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: conv(x, edges, edge_weight=w), weight)


def test_channels_inferred_at_the_first_call():
    edges, x = random_graph(6, 8, 0), torch.randn(6, 5)
    conv = chimera.ChimeraConv(-1, 7)
    assert conv(x, edges).shape == (6, 7)
    assert conv.lin.weight.shape == (7, 5)
    conv.reset_parameters()
    with pytest.raises(ValueError, match=r"x must have shape \[nodes, 5\], found \[6, 4\]"):
        conv(x[:, :4], edges)


def test_a_bipartite_graph_is_one_graph_of_both_sets():
    torch.manual_seed(0)
    conv = chimera.ChimeraConv((8, 6), 4, edge_dim=2, skip=False).double()
    source, target = torch.randn(3, 8).double(), torch.randn(4, 6).double()
    edges, edge_attr = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 3]]), torch.randn(4, 2).double()
    both = torch.cat([conv.lin(source), conv.lin_dst(target)])
    graph = chimera.Graph(7, [[0, 1, 2, 2], [4, 4, 3, 6]])
    expected = conv.mixer(both, graph, edge_attr)[3:]
    torch.testing.assert_close(conv((source, target), edges, edge_attr), expected)
    conv = chimera.ChimeraConv((8, 8), 4, skip=False).double()
    joint = conv.mixer(conv.lin(source) + conv.lin_dst(source), chimera.Graph(3, [[0], [1]]))
    torch.testing.assert_close(conv(source, torch.tensor([[0], [1]])), joint)


class TwoLayers(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.conv2 = chimera.ChimeraConv(channels, 8), chimera.ChimeraConv((-1, -1), 3)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


def test_heterogeneous_graphs():
    pyg = pytest.importorskip("torch_geometric.nn")
    x = {"paper": torch.randn(6, 5), "author": torch.randn(4, 7)}
    writes = torch.tensor([[0, 1, 2, 3, 3], [0, 2, 2, 4, 5]])
    edges = {
        ("paper", "cites", "paper"): random_graph(6, 5, 0),
        ("author", "writes", "paper"): writes,
        ("paper", "has", "author"): writes.flip(0),
    }
    model = pyg.to_hetero(TwoLayers((-1, -1)), (list(x), list(edges)))
    y = model(x, edges)
    assert {key: tuple(value.shape) for key, value in y.items()} == {"paper": (6, 3), "author": (4, 3)}
    y["author"].sum().backward()
    convs = {key: chimera.ChimeraConv((-1, -1) if key[0] != key[2] else -1, 3) for key in edges}
    y = pyg.HeteroConv(convs)(x, edges)
    expected = convs["paper", "has", "author"]((x["paper"], x["author"]), edges["paper", "has", "author"])
    torch.testing.assert_close(y["author"], expected)


def test_a_sampled_neighbourhood_is_a_graph():
    """As from `NeighborLoader`: the seeds come first, and edges lead towards them."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.utils import k_hop_subgraph

    edges, x = random_graph(30, 40, 0), torch.randn(30, 8).double()
    conv = build(edge_dim=None)
    nodes, found, place, _ = k_hop_subgraph(4, 6, edges, relabel_nodes=True, num_nodes=30)
    whole_component = k_hop_subgraph(4, 30, edges, num_nodes=30)[0]
    assert len(nodes) == len(whole_component)
    torch.testing.assert_close(conv(x[nodes], found)[place], conv(x, edges)[[4]])


def test_edge_masks_of_an_explainer():
    pytest.importorskip("torch_geometric")
    from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

    edges, conv = random_graph(6, 8, 0), build(edge_dim=None)
    x, weight, mask = features(6, 0)[0], torch.rand(16).double(), torch.randn(16).double().requires_grad_()
    plain = conv(x, edges, edge_weight=weight)
    set_masks(conv, mask, edges)
    masked = conv(x, edges, edge_weight=weight)
    (grad,) = torch.autograd.grad(masked.square().sum(), mask)
    assert (grad != 0).all()
    clear_masks(conv)
    torch.testing.assert_close(conv(x, edges, edge_weight=weight), plain)
    torch.testing.assert_close(masked, conv(x, edges, edge_weight=weight * mask.sigmoid()))
    set_masks(conv, (mask > 0).double(), edges, apply_sigmoid=False)
    found = conv(x, edges)
    clear_masks(conv)
    torch.testing.assert_close(found, conv(x, edges, edge_weight=(mask > 0).double()))


def test_it_starts_as_a_graph_convolution():
    edges, x = chimera.merge_edges(remove_self_loops(random_graph(6, 8, 0))[0])[0], torch.randn(6, 8)
    torch.manual_seed(0)
    conv, gcn = chimera.ChimeraConv(8, 5), GCNConv(8, 5)
    gcn.load_state_dict({"bias": torch.zeros(5), "lin.weight": conv.lin.weight})
    torch.testing.assert_close(conv(x, edges), gcn(x, edges))
    with torch.no_grad():
        conv.mixer.out_proj.weight.normal_()
    mixed = conv.mixer(gcn(x, edges), chimera.Graph(6, edges))
    torch.testing.assert_close(conv(x, edges), gcn(x, edges) + 0.1 * mixed)


def test_without_resolvent_and_convolution_a_node_does_not_depend_on_others():
    edges, (x, _) = random_graph(6, 20, 0), features(6, 0)
    options = {"edge_dim": None, "kind": chimera.OnGraph(injection="step"), "skip": False}
    changed = torch.cat([x[:1], -x[1:]])

    def depends(**others):
        conv = build(**options, **others)
        return not torch.allclose(conv(x, edges)[0], conv(changed, edges)[0])

    assert not depends(resolvent="identity", conv=False)
    assert depends(resolvent="identity")
    assert depends(conv=False)
