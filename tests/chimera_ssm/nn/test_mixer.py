"""The mixer: padding, packing, causality, recurrence, precision, and what it refuses."""

import copy
import inspect
import pickle
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import chimera_ssm as chimera
from tests import zoo

DIM, T = 32, 24
KINDS = {
    "line": (chimera.OnLine(), chimera.Line(T)),
    "line, target steps": (chimera.OnLine(step="target"), chimera.Line(T)),
    "line, mamba-2": (chimera.OnLine("target", learn_decay=True, injection="step"), chimera.Line(T)),
    "reversed line": (chimera.OnLine(), chimera.Line(T, reverse=True)),
    "two lines": (chimera.OnTwoLines(), chimera.UndirectedLine(T)),
    "undirected line": (chimera.OnUndirectedLine(), chimera.UndirectedLine(T)),
    "image": (chimera.OnGrid(), chimera.Grid((4, 6))),
    "image, sqrt, no sharing": (chimera.OnGrid(sharing="none", normalize="sqrt"), chimera.Grid((6, 4))),
    "video": (chimera.OnGrid(num_axes=3, sharing="row"), chimera.Grid((2, 3, 4))),
    "four axes": (chimera.OnGrid(num_axes=4, sharing="complete"), chimera.Grid((2, 3, 2, 2))),
    "image, read row after row": (chimera.OnRaster(), chimera.Grid((4, 6))),
    "image, undirected": (chimera.OnUndirectedGrid(gamma=0.99), chimera.Grid((4, 6))),
    "video, undirected": (chimera.OnUndirectedGrid(num_axes=3), chimera.Grid((2, 3, 4))),
    "video, read forward": (chimera.OnRaster(3, both=False), chimera.Grid((2, 3, 4))),
    "dag": (chimera.OnDAG(), zoo.random_dag(T, 40)),
    "graph as dags": (chimera.OnDAG(normalize="sqrt"), zoo.random_graph(T, 30)),
    "graph": (chimera.OnGraph(), zoo.random_graph(T, 30)),
    "graph, one step": (chimera.OnGraph(gamma=0.8, directional=False), zoo.random_graph(T, 30, loops=True)),
    "grid as graph": (chimera.OnGraph(), chimera.Grid((4, 6))),
    "line, step": (chimera.OnLine(injection="step"), chimera.Line(T)),
    "line, projected": (chimera.OnLine(injection="projected"), chimera.Line(T)),
    "two lines, projected": (chimera.OnTwoLines(injection="projected"), chimera.UndirectedLine(T)),
    "undirected line, projected": (chimera.OnUndirectedLine(injection="projected"), chimera.UndirectedLine(T)),
    "image, projected": (chimera.OnGrid(injection="projected"), chimera.Grid((4, 6))),
    "graph as dags, projected": (chimera.OnDAG(injection="projected"), zoo.random_graph(T, 30)),
    "graph, step": (chimera.OnGraph(injection="step"), zoo.random_graph(T, 30)),
    "graph, projected": (chimera.OnGraph(injection="projected"), zoo.random_graph(T, 30)),
}
ALL = pytest.mark.parametrize("name", KINDS)


def build(name, **options):
    kind, topology = KINDS[name]
    torch.manual_seed(0)
    mixer = chimera.Chimera(DIM, **{"num_heads": 4, "state_size": 8, "groups": 2, "kind": kind} | options).double()
    return mixer, topology


def features(*lead, seed=1):
    return torch.randn(*lead, T, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@ALL
def test_every_parameter_learns(name):
    mixer, topology = build(name)
    x = features(2).requires_grad_()
    mixer(x, topology).square().sum().backward()
    for label, parameter in [*mixer.named_parameters(), ("x", x)]:
        assert parameter.grad is not None, label
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().max() > 0, label


@ALL
@pytest.mark.parametrize("state_size", [3, 8])  # the convolution has 76 and 96 channels: without and with a kernel
def test_a_batch_of_one_is_its_part(name, engine, state_size):
    mixer, topology = build(name, state_size=state_size)
    results = []
    for one in (topology, chimera.batch([topology])):
        x = features(2).requires_grad_()
        y = mixer(x, one)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()])])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_far_nodes_of_a_graph_are_reached_from_the_start():
    """Influence falls to about a half with each hop, less in some heads; with Ψ as small as Δ, to a third."""
    torch.manual_seed(0)
    nodes = torch.arange(T)
    ring = chimera.Graph(T, torch.stack([torch.cat([nodes, (nodes + 1) % T]), torch.cat([(nodes + 1) % T, nodes])]))
    influence = chimera.Chimera(DIM, num_heads=32, expand=1).double().influence(0, features(), ring)
    falls = (influence[:, 8] / influence[:, 0]) ** (1 / 8)
    assert falls.median() > 0.45
    assert falls.max() > 0.65


@pytest.mark.slow
@pytest.mark.parametrize("state_size", [4, 32])
@ALL
def test_gradients_in_float32_agree_with_float64(name, state_size):
    """By states and by masks, compiled, with tensors strided as the mixer hands them over."""
    mixer, topology = build(name, state_size=state_size)
    grads = []
    for twin in (mixer, copy.deepcopy(mixer).float()):
        twin(features(3).to(twin.norm.D.dtype), topology).square().sum().backward()
        grads.append({label: parameter.grad.double() for label, parameter in twin.named_parameters()})
    for label, expected in grads[0].items():
        assert (grads[1][label] - expected).norm() < 1e-4 * expected.norm(), label


@ALL
def test_leading_dimensions(name):
    mixer, topology = build(name)
    x = features(2, 3)
    y = mixer(x, topology)
    assert y.shape == x.shape
    torch.testing.assert_close(y[1, 2], mixer(x[1, 2], topology))


@pytest.mark.parametrize("lead", [(), (1,), (3,), (2, 1), (1, 3), (2, 3)])
def test_leading_dimensions_broadcast(lead):
    mixer, topology = build("graph", edge_dim=5)
    x, attr = features(2, 3), torch.randn(*lead, topology.num_edges, 5, dtype=torch.float64)
    mask = torch.rand(*lead, T) < 0.7
    y, influence = (call(x, topology, attr, mask) for call in (mixer, partial(mixer.influence, 0)))
    attr, mask = attr.expand(2, 3, -1, -1), mask.expand(2, 3, -1)
    for place in [(0, 1), (1, 0), (1, 2)]:
        alone = x[place], topology, attr[place], mask[place]
        torch.testing.assert_close(y[place], mixer(*alone))
        torch.testing.assert_close(influence[place], mixer.influence(0, *alone))


@ALL
def test_a_packed_batch_equals_its_parts(name):
    mixer, topology = build(name)
    x = features(3)
    packed = mixer(x.flatten(0, 1), chimera.batch([topology] * 3))
    torch.testing.assert_close(packed.view(3, T, DIM), mixer(x, topology))


PARTS = [
    zoo.random_graph(6, 9), zoo.random_dag(7, 9), chimera.Graph(2, [[1], [1]]), zoo.ZOO["acyclic graph"],
    chimera.Grid((2, 3)), zoo.ZOO["no edges"], chimera.UndirectedLine(1), chimera.UndirectedLine(4), chimera.Line(3),
]  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("order", [[0, 1], [1, 0], [3, 2, 5], [6, 7], range(9), [8, 4, 0, 6, 2, 1, 7, 3, 5]], ids=str)
def test_with_and_without_cycles_a_part_of_a_batch_is_as_it_is_alone(order, masked):
    """One DAG stands for one part, two or four for another."""
    mixer, draw = build("dag", edge_dim=3)[0], torch.Generator().manual_seed(2)
    parts = [PARTS[k] for k in order]
    nodes, edges = [p.num_nodes for p in parts], [p.num_edges for p in parts]
    x = torch.randn(2, sum(nodes), DIM, dtype=torch.float64, generator=draw, requires_grad=True)
    attr = torch.randn(sum(edges), 3, dtype=torch.float64, generator=draw, requires_grad=True)
    mask = torch.rand(sum(nodes), generator=draw) < 0.7 if masked else None
    masks = mask.split(nodes) if masked else [None] * len(parts)
    together = mixer(x, chimera.batch(parts), attr, mask)
    pieces = list(zip(x.split(nodes, 1), parts, attr.split(edges), masks, strict=True))
    alone = torch.cat([mixer(*piece) for piece in pieces], dim=1)
    torch.testing.assert_close(together, alone)
    weight, leaves = torch.randn(alone.shape, dtype=torch.float64, generator=draw), [x, attr, *mixer.parameters()]
    found, expected = (torch.autograd.grad((y * weight).sum(), leaves) for y in (together, alone))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    influence = [mixer.influence(range(part.num_nodes), x, part, *rest) for x, part, *rest in pieces]
    whole = mixer.influence(range(sum(nodes)), x, chimera.batch(parts), attr, mask)
    blocks = [torch.block_diag(*(h[z, head] for h in influence)) for z in range(2) for head in range(4)]
    torch.testing.assert_close(whole.flatten(0, 1), torch.stack(blocks))


@pytest.mark.parametrize(
    "kind", [chimera.OnLine(), chimera.OnTwoLines(), chimera.OnUndirectedLine(), chimera.OnGraph()]
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_equals_its_parts_on_lines(kind, side):
    line = chimera.Line if isinstance(kind, chimera.OnLine) else chimera.UndirectedLine
    mixer = chimera.Chimera(DIM, 4, 8, kind=kind).double()
    lengths = [T, 17, 1, 5]
    x, mask = features(4), torch.zeros(4, T, dtype=torch.bool)
    places = [slice(T - n, T) if side == "left" else slice(0, n) for n in lengths]
    for row, place in enumerate(places):
        mask[row, place] = True
    x = torch.where(mask.unsqueeze(-1), x, torch.nan)  # what is masked must not matter, whatever it is
    y = mixer(x, line(T), node_mask=mask)
    for row, (n, place) in enumerate(zip(lengths, places, strict=True)):
        torch.testing.assert_close(y[row, place], mixer(x[row, place], line(n)))
        assert (y[row, ~mask[row]] == 0).all()


def test_a_padded_image_equals_itself_alone():
    mixer = chimera.Chimera(DIM, 4, 8, kind=chimera.OnGrid()).double()
    x = torch.randn(5, 7, DIM, dtype=torch.float64)
    mask = torch.zeros(5, 7, dtype=torch.bool)
    mask[1:4, 2:6] = True
    y = mixer(x.flatten(0, 1), chimera.Grid((5, 7)), node_mask=mask.flatten()).view(5, 7, DIM)
    alone = mixer(x[1:4, 2:6].reshape(12, DIM), chimera.Grid((3, 4)))
    torch.testing.assert_close(y[1:4, 2:6].reshape(12, DIM), alone)


@pytest.mark.parametrize("kind", [chimera.OnGraph(), chimera.OnDAG()])
def test_masked_nodes_of_a_graph_are_as_if_absent(kind):
    topology = zoo.random_dag(T, 60, seed=5) if isinstance(kind, chimera.OnDAG) else zoo.random_graph(T, 40, loops=True)
    mixer = chimera.Chimera(DIM, 4, 8, kind=kind, edge_dim=3).double()
    mask = torch.rand(T, generator=torch.Generator().manual_seed(3)) < 0.7
    source, target = topology.edge_index
    alive = mask[source] & mask[target]
    new = mask.cumsum(0) - 1
    smaller = type(topology)(int(mask.sum()), new[topology.edge_index[:, alive]])
    x, edges = features(), torch.randn(topology.num_edges, 3, dtype=torch.float64)
    found = mixer(x, topology, edges, node_mask=mask)
    torch.testing.assert_close(found[mask], mixer(x[mask], smaller, edges[alive]))
    assert (found[~mask] == 0).all()


@pytest.mark.parametrize("name", ["line", "line, target steps", "dag", "graph"])
def test_a_causal_line_stays_causal_bitwise(name):
    mixer, _ = build(name)
    mixer, x, line = mixer.float(), features(2).float(), chimera.Line(T)
    before = mixer(x, line)
    for t in (1, 8, T - 1):
        changed = x.clone()
        changed[:, t] += 1
        after = mixer(changed, line)
        assert torch.equal(after[:, :t], before[:, :t])
        assert not torch.equal(after[:, t], before[:, t])


@pytest.mark.parametrize("length", [5, 200])
def test_a_long_causal_line_stays_causal_bitwise(length):
    """Long enough for the state form, whose chunks must not look ahead either."""
    mixer = chimera.Chimera(DIM, 4, 4, kind=chimera.OnLine())
    x = torch.randn(length, DIM)
    changed = x.clone()
    changed[3 * length // 4] *= -2
    before, after = mixer(x, chimera.Line(length)), mixer(changed, chimera.Line(length))
    assert torch.equal(after[: 3 * length // 4], before[: 3 * length // 4])


@pytest.mark.parametrize("name", ["line", "line, target steps", "dag", "graph"])
def test_step_equals_the_parallel_form(name):
    mixer, _ = build(name)
    x, state, outputs = features(2, 3), None, []
    for t in range(T):
        y, state = mixer.step(x[:, :, t], state)
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs, dim=2), mixer(x, chimera.Line(T)))


@pytest.mark.parametrize("name", ["two lines", "undirected line", "image"])
def test_only_causal_mixers_step(name):
    mixer, _ = build(name)
    with pytest.raises(ValueError, match="only causal mixers have a recurrent form"):
        mixer.step(torch.randn(DIM, dtype=torch.float64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge_dim": 5}, "does not support edge features, and this mixer has edge_dim=5; call it on the whole line"),
        ({"solver": chimera.Neumann(1)}, r"is exact, and this mixer approximates by Neumann\(terms=1.*whole line"),
        ({"solver": chimera.Neumann()}, "approximates by Neumann"),
    ],
)
@pytest.mark.parametrize("name", ["dag", "graph"])
def test_mixers_whose_steps_would_differ_do_not_step(name, options, message):
    mixer, _ = build(name, **options)
    with pytest.raises(ValueError, match=message):
        mixer.step(torch.randn(DIM, dtype=torch.float64))


@pytest.mark.parametrize("name", ["dag", "graph"])
def test_permuting_nodes_and_edges(name):
    mixer, topology = build(name, edge_dim=5)
    nodes, edges = torch.randperm(T), torch.randperm(topology.num_edges)
    x, attr = features(), torch.randn(topology.num_edges, 5, dtype=torch.float64)
    moved = type(topology)(T, torch.argsort(nodes)[topology.edge_index[:, edges]])
    torch.testing.assert_close(mixer(x[nodes], moved, attr[edges]), mixer(x, topology, attr)[nodes])


@pytest.mark.parametrize("name", ["dag", "graph", "graph as dags"])
def test_edge_features_matter(name):
    mixer, topology = build(name, edge_dim=5)
    x, attr = features(2), torch.randn(2, topology.num_edges, 5, dtype=torch.float64, requires_grad=True)
    mixer(x, topology, attr).square().sum().backward()
    assert attr.grad.abs().amax(dim=(0, 2)).min() > 0
    assert mixer.edge_proj.weight.grad.abs().max() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@ALL
def test_autocast_is_finite(name, dtype):
    mixer, topology = build(name)
    mixer, x = mixer.float(), (10 * features(2)).float()
    with torch.autocast("cpu", dtype=dtype):
        y = mixer(x, topology)
    assert y.dtype == dtype
    assert y.isfinite().all()
    (y.float().square().mean() * 128).backward()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_whole_layer_in_half_precision(dtype):
    mixer, topology = build("image")
    y = mixer.to(dtype)(features(2).to(dtype), topology)
    assert y.dtype == dtype
    assert y.isfinite().all()


def test_the_default_takes_any_topology():
    mixer = chimera.Chimera(8, num_heads=2, state_size=4)
    for topology in zoo.ZOO.values():
        assert mixer(torch.randn(topology.num_nodes, 8), topology).isfinite().all()


def test_copies_and_pickles():
    mixer, topology = build("image")
    x = features()
    for twin in (copy.deepcopy(mixer), pickle.loads(pickle.dumps(mixer))):
        assert torch.equal(twin(x, topology), mixer(x, topology))


@ALL
def test_identity_is_the_mixer_without_paths(name):
    """With L = I a mixer equals itself on the same nodes, the weights of all edges zero and β as before."""
    mixer, topology = build(name, conv=False)
    identity = build(name, conv=False, resolvent="identity")[0]
    identity.load_state_dict(mixer.state_dict())
    x = features(2)
    terms = mixer.kind.terms

    def without_paths(*args, **options):
        return [(t, a._replace(weight=torch.zeros_like(a.weight))) for t, a in terms(*args, **options)]

    object.__setattr__(mixer.kind, "terms", without_paths)
    try:
        expected = mixer(x, topology)
    finally:
        object.__delattr__(mixer.kind, "terms")
    torch.testing.assert_close(identity(x, topology), expected)
    assert (identity(x, topology) - mixer(x, topology)).abs().max() > 1e-4
    rows = identity.influence(3, x, topology)
    assert torch.equal(rows.nonzero()[:, -1].unique(), torch.tensor([3]))


@pytest.mark.parametrize("both", [True, False])
def test_a_grid_read_row_after_row_is_the_line_but_for_its_window(both):
    """Without convolutions the two mixers are the same function of the same parameters."""
    torch.manual_seed(0)
    kind, line = (chimera.OnTwoLines(), chimera.UndirectedLine(T)) if both else (chimera.OnLine(), chimera.Line(T))
    mixers = [chimera.Chimera(DIM, 4, 8, kind=k, conv=False).double() for k in (chimera.OnRaster(both=both), kind)]
    mixers[1].load_state_dict(mixers[0].state_dict())
    results = []
    for mixer, topology in zip(mixers, (chimera.Grid((4, 6)), line), strict=True):
        x = features(2).requires_grad_()
        y = mixer(x, topology)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    whole = chimera.batch([chimera.Grid((4, 3)), chimera.Grid((3, 4))])
    x = features(2)
    parts = [mixers[0](x[:, :12], chimera.Grid((4, 3))), mixers[0](x[:, 12:], chimera.Grid((3, 4)))]
    torch.testing.assert_close(mixers[0](x, whole), torch.cat(parts, dim=1))


@ALL
def test_without_paths_and_convolution_only_steps_of_neighbours_matter(name):
    """They enter β; with a projected injection nothing does."""
    mixer, topology = build(name, conv=False, resolvent="identity")
    x = features().requires_grad_()
    gradient = torch.autograd.grad(mixer(x, topology)[5].sum(), x)[0]
    read = chimera.UndirectedLine(T) if isinstance(mixer.kind, chimera.OnRaster) else topology
    source, target = read.edge_index
    neighbours = {5} if mixer.kind.injection == "projected" else {5, *source[target == 5].tolist()}
    assert set(gradient.abs().sum(-1).nonzero().flatten().tolist()) <= neighbours
    assert gradient[5].abs().max() > 0


def gradients(y, arguments):
    return torch.autograd.grad(y.square().sum(), arguments)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_results_may_be_changed_in_place(engine, dtype):
    torch.manual_seed(0)
    grid, x = chimera.Grid((4, 5)), torch.randn(2, 20, 16, dtype=dtype, requires_grad=True)
    mixer = chimera.Chimera(16, 2, 8, kind=chimera.OnGrid()).to(dtype)
    norm, block = chimera.nn.norm.RMSNorm(16).to(dtype), mixer.kind.conv(16).to(dtype)
    neighbours = chimera.NeighbourConv(16).to(dtype)
    layers = [lambda: mixer(x, grid), lambda: norm(x), lambda: block(x, grid), lambda: block(x, grid, activate=True),
              lambda: neighbours(x, grid), lambda: neighbours(x, grid, activate=True)]  # fmt: skip
    for layer in layers:
        (expected,) = gradients(layer() + 1, [x])
        y = layer()
        y += 1
        (found,) = gradients(y, [x])
        torch.testing.assert_close(found, expected)


SMALL = {
    "line": (chimera.OnLine(), chimera.Line(4)),
    "line, mamba-2": (chimera.OnLine("target", learn_decay=True, injection="step"), chimera.Line(T)),
    "reversed line": (chimera.OnLine(step="target"), chimera.Line(4, reverse=True)),
    "two lines": (chimera.OnTwoLines(), chimera.UndirectedLine(4)),
    "undirected line": (chimera.OnUndirectedLine(), chimera.UndirectedLine(4)),
    "grid": (chimera.OnGrid(), chimera.Grid((2, 3))),
    "dag": (chimera.OnDAG(), zoo.random_dag(5, 7)),
    "graph as dags": (chimera.OnDAG(), zoo.random_graph(5, 6)),
    "graph": (chimera.OnGraph(), zoo.random_graph(5, 6)),
    "graphs": (chimera.OnGraph(), chimera.batch([zoo.random_graph(4, 4), chimera.Line(2)])),
}


def hessian_by_differences(function, x, step=1e-5):
    def gradient(x):
        return torch.autograd.grad(function(x.requires_grad_()), x)[0].flatten()

    units = torch.eye(x.numel(), dtype=x.dtype).view(-1, *x.shape)
    return torch.stack([(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in units])


def assert_hessian(energy, x):
    found = torch.autograd.functional.hessian(energy, x).view(x.numel(), -1)
    torch.testing.assert_close(found, hessian_by_differences(energy, x), rtol=0, atol=1e-6)


def small_layer(name):
    """A layer whose convolution and norm have kernels, and features."""
    torch.manual_seed(0)
    kind, topology = SMALL[name]
    layer = chimera.Chimera(8, kind=kind, num_heads=1, state_size=4).double()
    return layer, topology, torch.randn(topology.num_nodes, 8, dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_hessian_of_a_layer(name, form):
    layer, topology, x = small_layer(name)
    assert_hessian(lambda x: layer(x, topology).sum(), x)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["line", "graph"])
def test_the_hessian_of_a_checkpointed_layer(name):
    layer, topology, x = small_layer(name)
    assert_hessian(lambda x: checkpoint(layer, x, topology, use_reentrant=False).sum(), x)


def test_a_call_reaches_its_kernel_in_few_frames(monkeypatch):
    """At most 8 of our stack frames in 5 files from `forward` to the kernel of the mix, which counts as the last."""
    from chimera_ssm.ops.sparse_lu import cpu_mask

    library, graph = Path(chimera.__file__).parent, zoo.random_graph(T, 30)
    mixer = chimera.Chimera(DIM)
    assert chimera.select_solver(graph, 64, 64).form == "mask"
    mixer(torch.randn(T, DIM), graph)  # compiles, and plans
    stacks, kernel = [], cpu_mask.masks_forward

    def record(*args):
        stacks.append([frame.filename for frame in inspect.stack(0) if Path(frame.filename).is_relative_to(library)])
        return kernel(*args)

    monkeypatch.setattr(cpu_mask, "masks_forward", record)
    mixer(torch.randn(T, DIM), graph)
    assert len(stacks) == 1
    assert 5 < len(stacks[0]) + 1 <= 8
    assert len(set(stacks[0])) <= 5


def test_masked_nodes_do_not_count_in_the_mean_over_neighbours():
    graph = chimera.Graph(5, [[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 0]])
    mixer = chimera.Chimera(8, kind=chimera.OnGraph(aggregate="mean"), edge_dim=2).double()
    x, edge_attr = torch.randn(2, 5, 8).double(), torch.randn(6, 2).double()
    mask = torch.tensor([True, True, True, True, False])
    smaller = chimera.Graph(4, [[0, 1, 2, 1], [1, 2, 3, 0]])
    expected = mixer(x[:, :4], smaller, edge_attr[[0, 1, 2, 5]])
    torch.testing.assert_close(mixer(x, graph, edge_attr, node_mask=mask)[:, :4], expected)
    with pytest.raises(ValueError, match="aggregate must be one of"):
        chimera.OnGraph(aggregate="max")
