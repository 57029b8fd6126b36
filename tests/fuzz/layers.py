"""Random calls of the mixer: on a batch, with padding, with other numbers for the nodes; each compared with the truth.

The truth is the mixer in float64 and plain PyTorch, with the dense truth in the place of its mix, on each graph alone,
without masked nodes and with the nodes in their first order.
"""

import copy
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import torch

import chimera_ssm as chimera
from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.nn import mixer as mixers
from chimera_ssm.ops.reference import reference_mix
from tests.fuzz.topologies import ACYCLIC, CYCLIC, EDGELESS, draw_part, draw_sizes
from tests.fuzz.truth import resolvent

_ANY = (*ACYCLIC, *CYCLIC, *EDGELESS)


@dataclass(frozen=True)
class LayerCase:
    """A mixer, the parts of the topology it is called on, and which nodes of it are there.

    Attributes:
        seed: from which everything is drawn.
        mixer: in the dtype in which it is tested.
        parts: graphs of the batch, as they are without padding.
        padded: the same with padding; the same objects if there is none.
        present: numbers in the padded part of the nodes of each part.
        order: a permutation of the nodes of the whole, or ``None``.
        engine: ``"kernels"``, ``"plain"`` PyTorch, or ``"operators"``.
    """

    seed: int
    mixer: chimera.Chimera
    parts: tuple
    padded: tuple
    present: tuple
    order: np.ndarray | None
    engine: str
    family: str = "usual"
    form: None = None
    divided: bool = False
    mode: str = "grad"

    def __str__(self):
        how = ["padded" if self.padded is not self.parts else "", "permuted" if self.order is not None else ""]
        sizes = f"{self.mixer.dim}, {self.mixer.num_heads} heads, {self.mixer.state_size} states"
        dtype = str(self.mixer.norm.D.dtype).removeprefix("torch.")
        on = ", ".join(map(str, self.padded))
        return f"layer: {self.mixer.kind} of {sizes} on {on}; " + ", ".join([*filter(None, how), dtype, self.engine])


def draw_layer(seed):
    """The layer case of a seed."""
    rng = np.random.default_rng([seed, 2])
    options = {"injection": [None, None, "step", "projected"][rng.integers(4)]}
    sharing, normalize = rng.choice(["none", "complete", "row", "diagonal"]), rng.choice(["row", "column"])
    kinds = {
        chimera.OnLine(step=str(rng.choice(["mean", "target"])), **options): ("line", "line reversed"),
        chimera.OnTwoLines(**options): ("undirected line",),
        chimera.OnUndirectedLine(**options): ("undirected line",),
        chimera.OnGrid(sharing=str(sharing), **options): ("grid",),
        chimera.OnDAG(**options): (*ACYCLIC, *EDGELESS) if rng.random() < 0.6 else _ANY,
        chimera.OnGraph(directional=bool(rng.integers(2)), normalize=str(normalize), **options): _ANY,
    }
    kind = list(kinds)[rng.integers(len(kinds))]
    parts = tuple(_draw_part(rng, n, kinds[kind]) for n in draw_sizes(rng, largest=90))
    padded, present = parts, tuple(np.arange(p.num_nodes) for p in parts)
    # The DAGs of a graph with cycles depend on how its nodes are numbered.
    numbered = isinstance(kind, chimera.OnDAG) and not all(p.is_acyclic for p in parts)
    if rng.random() < 0.5 and not numbered:
        padded, present = zip(*(_padded(rng, p) for p in parts), strict=True)
    order = None
    if kind.edge_features and not numbered and rng.random() < 0.3:
        order = rng.permutation(sum(p.num_nodes for p in padded))
    groups = int(rng.choice([1, 2]))
    dim = int(rng.choice([8, 16, 32]))
    torch.manual_seed(seed)
    mixer = chimera.Chimera(
        dim,
        num_heads=groups * int(rng.choice([1, 2])),
        state_size=int(rng.choice([1, 3, 8, 16])),
        groups=groups,
        gate=bool(rng.integers(2)),
        edge_dim=3 if kind.edge_features and rng.random() < 0.5 else None,
        kind=kind,
        conv=rng.random() < 0.8,
    ).to(torch.float64 if rng.random() < 0.6 else torch.float32)
    engine = str(rng.choice(["kernels", "plain", "operators"], p=[0.7, 0.2, 0.1]))
    return LayerCase(seed, mixer, parts, padded, present, order, engine)


def _draw_part(rng, n, kinds):
    kind = rng.choice(kinds)
    if kind != "grid":
        return draw_part(rng, n, kind)
    rows = int(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
    return chimera.Grid((rows, n // rows))


def _padded(rng, part):
    """A topology with more nodes, in which the part is what is left without them, and the numbers of its nodes."""
    T, (before, after) = part.num_nodes, rng.integers(0, 5, 2).tolist()
    if isinstance(part, (chimera.Line, chimera.UndirectedLine)):
        return type(part)(before + T + after, reverse=part.reverse), np.arange(before, before + T)
    if isinstance(part, chimera.Grid) and part.num_axes == 2 and not part.reverse:
        rows, columns = part.shape
        nodes = np.arange((rows + before) * (columns + after)).reshape(rows + before, -1)
        return chimera.Grid(nodes.shape), nodes[before:, :columns].ravel()
    present, absent = np.split(rng.permutation(T + before + after), [T])
    links = int(rng.integers(0, 3 * absent.size + 1))
    more = [rng.choice(present, links), rng.choice(absent, links)] if links else np.empty((2, 0), int)
    more = np.unique(more, axis=1)
    if not part.is_acyclic:
        more = np.where(rng.random(more.shape[1]) < 0.5, more, more[::-1])
    edges = np.concatenate([present[part.edge_index.numpy()], more], axis=1)
    return (chimera.DAG if part.is_acyclic else chimera.Graph)(T + before + after, edges), present


def layer_differences(case, contexts):
    """Names, found and expected tensors: the output, and gradients of features and parameters; and κ.

    Args:
        case: a layer case.
        contexts: context manager around the call that is tested.
    """
    rng, dtype = np.random.default_rng([case.seed, 3]), case.mixer.norm.D.dtype
    nodes = [p.num_nodes for p in case.parts]
    edges = [p.num_edges for p in case.parts]
    x = _random(rng, dtype, rng.integers(1, 3), sum(nodes), case.mixer.dim)
    attr = None if case.mixer.edge_proj is None else _random(rng, dtype, sum(edges), 3)
    grad = _random(rng, dtype, *x.shape)

    x.requires_grad_()
    leaves = [x] if attr is None else [x, attr.requires_grad_()]
    whole, features, edge_attr, node_mask, present = _assembled(case, rng, x, attr)
    with contexts:
        y = case.mixer(features, whole, edge_attr, node_mask)
        along = torch.randn(y.shape, dtype=dtype).index_copy(1, present, grad)
        found = torch.autograd.grad(y, [*leaves, *case.mixer.parameters()], along)

    twin, condition = copy.deepcopy(case.mixer).double(), [1.0]
    twins = [leaf.detach().double().requires_grad_() for leaf in leaves]
    attrs = [None] * len(nodes) if attr is None else twins[1].split(edges)
    with disable_kernels(), patch.object(mixers, "mix", _dense_mix(condition)):
        pieces = zip(twins[0].split(nodes, 1), case.parts, attrs, strict=True)
        expected = torch.cat([twin(*piece) for piece in pieces], dim=1)
    expected_grads = torch.autograd.grad(expected, [*twins, *twin.parameters()], grad.double())
    absent = y.detach().index_fill(1, present, 0)
    names = ["x", "edge_attr"][: len(leaves)] + [name for name, _ in twin.named_parameters()]
    comparisons = [("values", y[:, present], expected), ("values of absent nodes", absent, torch.zeros_like(absent))]
    comparisons += [(f"the gradient of {n}", a, b) for n, a, b in zip(names, found, expected_grads, strict=True)]
    return comparisons, max(condition)


def _random(rng, dtype, *shape):
    return torch.from_numpy(rng.normal(size=shape)).to(dtype)


def _assembled(case, rng, x, attr):
    """Topology, features, edge features and mask of the padded, permuted whole; and where its nodes are, ``[T]``."""
    sizes = [p.num_nodes for p in case.padded]
    starts = np.cumsum([0, *sizes[:-1]])
    present = torch.from_numpy(np.concatenate([n + s for n, s in zip(case.present, starts, strict=True)]))
    whole = chimera.batch(case.padded) if len(sizes) > 1 else case.padded[0]
    if attr is not None:
        pieces = zip(attr.split([p.num_edges for p in case.parts]), case.parts, case.padded, case.present, strict=True)
        attr = torch.cat([
            _random(rng, a.dtype, padded.num_edges, 3).index_copy(
                0, torch.from_numpy(padded.find_edges(*nodes[part.edge_index.numpy()])), a
            )
            for a, part, padded, nodes in pieces
        ])  # fmt: skip
    if case.order is not None:
        place, edges = torch.from_numpy(np.argsort(case.order)), torch.from_numpy(rng.permutation(whole.num_edges))
        kind = chimera.DAG if whole.is_acyclic else chimera.Graph
        whole, present = kind(whole.num_nodes, place[whole.edge_index[:, edges]]), place[present]
        attr = None if attr is None else attr[edges]
    if case.padded is case.parts and case.order is None:
        return whole, x, attr, None, present
    mask = torch.zeros(whole.num_nodes, dtype=torch.bool)
    mask[present] = True
    empty = torch.full((x.shape[0], whole.num_nodes, x.shape[2]), torch.nan, dtype=x.dtype)
    return whole, empty.index_copy(1, present, x), attr, mask, present


def _dense_mix(condition):
    """The dense truth with the signature of `mix`; the largest absolute row sums of L are added to ``condition``."""

    def mix(topologies, weights, Cs, Bs, V, scales, solver):
        total = 0
        for topology, weight, C, B, scale in zip(topologies, weights, Cs, Bs, scales, strict=True):
            L = resolvent(topology, weight, None)
            condition.append(max(L.detach().abs().sum(dim).max().item() for dim in (-1, -2)))
            total = total + reference_mix(L, C, B, V, scale)
        return total

    return mix
