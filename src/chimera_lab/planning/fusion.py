"""Count the work of a compiled part of a model: its graph as `torch.compile` traces it, with neighbours fused.

The graph is traced on a CPU, forward and backward, with the compiler's choice of what to save and what to compute
again. Nothing is generated or run. What a compiler makes of the graph is modelled by these rules:

- Matrix products, convolutions, attention, mixes, scatters and scans are kernels of their own.
- Between two of these, connected elementwise operations, and reductions of rows with them, are one kernel. It reads
  each tensor from outside once, and writes each that is used outside once.
- A reduction over other dimensions than the last, such as the gradient of a bias, is one kernel with the elementwise
  operations before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils._pytree import tree_leaves, tree_map

from chimera_lab.planning.mixes import MIX, MIX_BACKWARD, MixCall
from chimera_lab.planning.traffic import Traffic, flops_of, is_memory_bound, tensor_bytes

_aten = torch.ops.aten
#: Operations without a tag that are computed for each element of their result.
_ELEMENTWISE = {
    _aten._to_copy, _aten.gather, _aten.index, _aten.index_select, _aten.embedding, _aten.cat, _aten.constant_pad_nd,
    _aten.flip, _aten.repeat, _aten.native_dropout, _aten.native_dropout_backward, _aten.full, _aten.full_like,
    _aten.arange, _aten.scalar_tensor, _aten.empty, _aten.lift_fresh_copy, _aten.rand, _aten.rand_like,
}  # fmt: skip
#: Reductions that also return something for each element.
_REDUCTIONS = {_aten.mean, _aten.var_mean, _aten.amax, _aten.amin, _aten.any, _aten.all}
_ROWWISE = {_aten._softmax, _aten._log_softmax, _aten._softmax_backward_data, _aten._log_softmax_backward_data}
#: What is not decomposed into products and a softmax.
_KEPT = (_aten._scaled_dot_product_flash_attention_for_cpu.default,)
_VIEWS = {_aten._unsafe_view, _aten.alias, _aten.detach}


@dataclass
class GraphCounts:
    """Work of the graphs that a compiled function was traced to, as in `StepCounts`; and its mixes."""

    half_flops: float = 0.0
    single_flops: float = 0.0
    bytes_moved: float = 0.0
    operations: int = 0
    activation_bytes: int = 0
    largest_bytes: int = 0
    mixes: list[MixCall] = field(default_factory=list)

    def add_to(self, traffic: Traffic) -> None:
        """Add the counts to those of the rest of a step."""
        for name in ("half_flops", "single_flops", "bytes_moved", "operations", "activation_bytes"):
            setattr(traffic, name, getattr(traffic, name) + getattr(self, name))
        traffic.largest_bytes = max(traffic.largest_bytes, self.largest_bytes)
        traffic.mixes = [*(traffic.mixes or []), *self.mixes]


class Traced:
    """A function that is traced when it is first called; its result is then zeros, the same at every call."""

    def __init__(self, function: Callable[..., Any], counts: GraphCounts):
        self.function, self.counts, self.result = function, counts, None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.result is None:
            self.result = trace(self.function, self.counts, *args, **kwargs)
        return self.result


def trace(function: Callable[..., Any], counts: GraphCounts, *args: Any, **kwargs: Any) -> Any:
    """Zeros in place of the result of ``function``; ``counts`` are filled with those of the graphs of both passes."""

    def compiler(forward: bool) -> Callable[..., Any]:
        def compile(graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
            _count(graph, counts, forward)
            return _zeros(graph)

        return compile

    backend = aot_autograd(
        fw_compiler=compiler(True),
        bw_compiler=compiler(False),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=_decompositions(),
    )
    torch._dynamo.reset()
    result = torch.compile(function, backend=backend, dynamic=False, fullgraph=True)(*args, **kwargs)
    tensors = [x for x in tree_leaves(result) if isinstance(x, Tensor) and x.requires_grad]
    if tensors:
        torch.autograd.backward(tensors, [torch.zeros_like(x) for x in tensors])
    torch._dynamo.reset()
    return tree_map(lambda x: x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x, result)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of a compiler that fuses norms, and has attention as a kernel."""
    table: dict[Any, Callable[..., Any]] = {
        **core_aten_decompositions(),
        **get_decompositions([_aten.native_layer_norm]),
    }
    return {op: function for op, function in table.items() if op not in _KEPT}


def _zeros(graph: fx.GraphModule) -> Callable[..., Any]:
    """A function with results of the same shapes as those of the graph."""
    outputs: Any = graph.graph.output_node().args[0]
    results = [x.meta["val"] if isinstance(x, fx.Node) else x for x in outputs]
    shapes: list[Any] = [(x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x for x in results]

    def run(args: list[Any]) -> list[Any]:
        args.clear()
        return [torch.empty_strided(x[0], x[1], dtype=x[2]).zero_() if isinstance(x, tuple) else x for x in shapes]

    run._boxed_call = True  # ty: ignore[missing-attribute]  (the compiler then lets its arguments go)
    return run


def _count(graph: fx.GraphModule, counts: GraphCounts, forward: bool) -> None:
    nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
    _count_alone(nodes, counts)
    for kernel in _Fusion(nodes).kernels():
        counts.operations += 1
        counts.bytes_moved += kernel
    own = {_root(x) for x in tree_leaves(graph.graph.output_node().args) if isinstance(x, fx.Node)}
    if forward:  # what is returned is saved for the backward pass, or for the rest of the model
        counts.activation_bytes += sum(int(_bytes(x)) for x in own if x.op != "placeholder")
    sizes = [int(_bytes(node)) for node in nodes if _kind(node) != "view"]
    counts.largest_bytes = max([counts.largest_bytes, *sizes])


def _count_alone(nodes: list[fx.Node], counts: GraphCounts) -> None:
    """Products, mixes, and other kernels that are not fused."""
    for node in nodes:
        if _kind(node) != "alone":
            continue
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        if node.target in (MIX, MIX_BACKWARD):
            counts.mixes += [MixCall.of(args)] if node.target is MIX else []
            continue
        counts.operations += 1
        flops = flops_of(_packet(node), args, kwargs, node.meta["val"])
        if flops is not None:
            half = _values(node)[0].dtype in (torch.float16, torch.bfloat16)
            counts.half_flops += flops if half else 0
            counts.single_flops += 0 if half else flops
        if flops is None or is_memory_bound(_packet(node)):
            counts.bytes_moved += sum(_bytes(x) for x in {*node.all_input_nodes, node})


class _Fusion:
    """Groups of operations that become one kernel each: connected ones of the same depth.

    The depth of an operation is how many kernels that are not fused come before it. An elementwise operation is
    computed as late as its first user needs it.
    """

    def __init__(self, nodes: list[fx.Node]):
        self.fused = [node for node in nodes if _kind(node) in ("element", "row", "column")]
        self.depth: dict[fx.Node, int] = {}
        for node in nodes:
            inputs = [x for x in map(_root, node.all_input_nodes) if x in self.depth]
            later = [self.depth[x] + (_kind(x) in ("alone", "column") or _kind(node) == "alone") for x in inputs]
            self.depth[node] = max(later, default=0)
        for node in reversed(self.fused):
            users = [self.depth[x] - (_kind(x) == "alone") for x in _users(node) if x in self.depth]
            if _kind(node) == "element" and users:
                self.depth[node] = max(self.depth[node], min(users))
        self.parent = {node: node for node in self.fused}
        for node in self.fused:
            for x in map(_root, node.all_input_nodes):
                if _kind(node) != "column" and x in self.parent and self._joins(x, node):
                    self.parent[self._group(x)] = self._group(node)

    def _joins(self, x: fx.Node, node: fx.Node) -> bool:
        return _kind(x) != "column" and self.depth[x] == self.depth[node]

    def _group(self, node: fx.Node) -> fx.Node:
        while self.parent[node] is not node:
            node = self.parent[node]
        return node

    def kernels(self) -> Iterator[float]:
        """The bytes that each kernel reads and writes."""
        groups: dict[fx.Node, list[fx.Node]] = {}
        for node in self.fused:
            groups.setdefault(self._group(node), []).append(node)
        for members in groups.values():
            inside = set(members)
            written = [x for node in members for x in _results(node) if self._is_written(x, inside)]
            if _kind(members[0]) == "column":
                read = self._read_before(members[0])
            else:
                read = {x for node in members for x in node.all_input_nodes if _root(x) not in inside}
            if written:
                yield sum(map(_bytes, written)) + sum(map(_bytes, read))

    def _is_written(self, node: fx.Node, inside: set[fx.Node]) -> bool:
        """Whether a result is used by another kernel; a reduction over columns computes elements again."""
        users, root = list(_users(node)), _root(node)
        if _kind(root) == "element":
            users = [x for x in users if not (_kind(x) == "column" and self.depth[x] == self.depth[root])]
        return any(x not in inside for x in users) and not _is_constant(root)

    def _read_before(self, node: fx.Node) -> set[fx.Node]:
        """What a reduction over columns reads, through the elementwise operations before it."""
        read, waiting = set(), list(node.all_input_nodes)
        while waiting:
            x = waiting.pop()
            root = _root(x)
            if _kind(root) == "element" and self.depth[root] == self.depth[node]:
                waiting += root.all_input_nodes
            else:
                read.add(x)
        return read


def _kind(node: fx.Node) -> str:
    """``"view"``, ``"element"``, ``"row"`` or ``"column"`` reductions, ``"alone"``; empty for inputs and outputs."""
    if node.op != "call_function":
        return ""
    packet = _packet(node)
    if packet is None or packet in _VIEWS or getattr(node.target, "is_view", False):  # None: an item of several results
        return "view"
    tags = getattr(node.target, "tags", ())
    if packet in _ELEMENTWISE or torch.Tag.pointwise in tags:
        return "element"
    if packet in _ROWWISE:
        return "row"
    if torch.Tag.reduction in tags or packet in _REDUCTIONS:
        return _kind_of_reduction(node)
    return "alone"


def _kind_of_reduction(node: fx.Node) -> str:
    rank = _values(node.all_input_nodes[0])[0].dim()
    dims: Any = node.args[1] if len(node.args) > 1 else None
    dims = list(range(rank)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else list(dims)
    return "row" if rank - 1 in [d % max(rank, 1) for d in dims] else "column"


def _packet(node: fx.Node) -> Any:
    return getattr(node.target, "overloadpacket", None)


def _root(node: fx.Node) -> fx.Node:
    """The node whose memory this one shares."""
    while _kind(node) == "view":
        node = node.all_input_nodes[0]
    return node


def _results(node: fx.Node) -> list[fx.Node]:
    """The node itself, or the items of several results."""
    return [node] if isinstance(node.meta["val"], Tensor) else list(node.users)


def _users(node: fx.Node) -> Iterator[fx.Node]:
    """What uses a result, maybe through views."""
    for user in node.users:
        if _kind(user) == "view":
            yield from _users(user)
        else:
            yield user


def _is_constant(node: fx.Node) -> bool:
    """Whether a result is computed from nothing; other kernels then compute it again."""
    return not node.all_input_nodes


def _values(node: fx.Node) -> list[Tensor]:
    return [x for x in tree_leaves(node.meta["val"]) if isinstance(x, Tensor)]


def _bytes(node: fx.Node) -> float:
    """Bytes of a result, or of what a view shows of another; nothing for what is computed from nothing."""
    return 0 if node.op == "call_function" and _is_constant(node) else sum(map(tensor_bytes, _values(node)))
