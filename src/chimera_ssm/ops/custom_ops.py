"""The functional interface as operators, ``torch.ops.chimera_ssm``, for ``torch.compile`` and ``torch.export``.

An operator takes tensors, and strings that name the topologies and the solver, so that an exported program runs in any
process. It computes with the eager function. Its backward operator saves only the inputs, and runs the eager function
again to differentiate it; compiled kernels skip that second forward pass.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from chimera_ssm.gpu.availability import is_gpu
from chimera_ssm.ops.autograd import Once, backward_only
from chimera_ssm.ops.broadcasting import compute_dtype
from chimera_ssm.ops.contract import Solver
from chimera_ssm.topology import Batch, Topology
from chimera_ssm.topology.registry import read_call, topology_of

# Calls of the operators

_asked_for: ContextVar[bool] = ContextVar("chimera_as_operators", default=False)


@contextmanager
def as_operators() -> Generator[None]:
    """Within this context eager calls use the operators as well: for tools that count or trace them."""
    token = _asked_for.set(True)
    try:
        yield
    finally:
        _asked_for.reset(token)


def use_operators() -> bool:
    """Whether operators are to be used."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or _asked_for.get()


def mask(topology: Topology, weight: Tensor, solver: Solver | None) -> Tensor:
    """`chimera_ssm.mask` as an operator."""
    return _mask(weight, topology.spec, name_of(solver))


def solve(topology: Topology, weight: Tensor, rhs: Tensor, solver: Solver | None) -> Tensor:
    """`chimera_ssm.solve` as an operator."""
    return _solve(weight, rhs, topology.spec, name_of(solver))


def mix(
    topologies: Sequence[Topology],
    weights: list[Tensor],
    Cs: list[Tensor],
    Bs: list[Tensor],
    V: Tensor,
    scales: Sequence[Tensor | None],
    solver: Solver | None,
) -> Tensor:
    """`chimera_ssm.mix` as an operator."""
    given = [s for s in scales if s is not None]
    if given and len(given) < len(scales):
        given = [V.new_ones(V.shape[:-1]) if s is None else s for s in scales]
    if is_gpu(V.device):  # whose kernels need it: a compiler writes what comes before in this layout
        contiguous = Once(Tensor.contiguous)
        V, Cs, Bs = contiguous(V), [contiguous(x) for x in Cs], [contiguous(x) for x in Bs]
    return _mix(V, weights, Cs, Bs, given, ";".join([t.spec for t in topologies]), name_of(solver))


def mix_states(
    topology: Topology, weight: Tensor, C: Tensor, B: Tensor, V: Tensor, scale: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """`chimera_ssm.mix` with states as an operator."""
    scale = V.new_ones(V.shape[:-1]) if scale is None else scale
    if state is None:
        parts = (topology.num_parts,) if isinstance(topology, Batch) else ()
        state = V.new_zeros(*parts, V.shape[-3], C.shape[-1], V.shape[-1])
    return _mix_states(V, weight, C, B, scale, state, topology.spec)


def name_of(solver: Solver | None) -> str:
    """A solver as text; nothing for the automatic choice."""
    if solver is None:
        return ""
    options = [f"{field.name}={getattr(solver, field.name)!r}" for field in fields(solver)]
    return f"{type(solver).__name__}({', '.join(options)})"


@lru_cache(maxsize=64)
def solver_of(name: str) -> Solver | None:
    """The reverse."""
    if not name:
        return None
    kind, options = read_call(ast.parse(name, mode="eval").body, Solver)
    return kind(**options)


# Operators: values, shapes, gradients


@custom_op("chimera_ssm::mask", mutates_args=())
def _mask(weight: Tensor, topology: str, solver: str) -> Tensor:
    return _separate([_eager_mask(topology, solver)(weight)], [weight])[0]


@_mask.register_fake
def _(weight: Tensor, topology: str, solver: str) -> Tensor:
    T = topology_of(topology).num_nodes
    return weight.new_empty(*weight.shape[:-1], T, T)


@custom_op("chimera_ssm::mask_backward", mutates_args=())
def _mask_backward(grad: Tensor, weight: Tensor, topology: str, solver: str) -> Tensor:
    return _gradients(_eager_mask(topology, solver), [weight], grad)[0]


@_mask_backward.register_fake
def _(grad: Tensor, weight: Tensor, topology: str, solver: str) -> Tensor:
    return _like(weight)


@custom_op("chimera_ssm::solve", mutates_args=())
def _solve(weight: Tensor, rhs: Tensor, topology: str, solver: str) -> Tensor:
    return _separate([_eager_solve(topology, solver)(weight, rhs)], [weight, rhs])[0]


@_solve.register_fake
def _(weight: Tensor, rhs: Tensor, topology: str, solver: str) -> Tensor:
    lead = torch.broadcast_shapes(weight.shape[:-1], rhs.shape[:-2])
    return rhs.new_empty(*lead, *rhs.shape[-2:])


@custom_op("chimera_ssm::solve_backward", mutates_args=())
def _solve_backward(grad: Tensor, weight: Tensor, rhs: Tensor, topology: str, solver: str) -> tuple[Tensor, Tensor]:
    dweight, drhs = _gradients(_eager_solve(topology, solver), [weight, rhs], grad)
    return dweight, drhs


@_solve_backward.register_fake
def _(grad: Tensor, weight: Tensor, rhs: Tensor, topology: str, solver: str) -> tuple[Tensor, Tensor]:
    return _like(weight), _like(rhs)


@custom_op("chimera_ssm::mix", mutates_args=())
def _mix(
    V: Tensor,
    weights: Sequence[Tensor],
    Cs: Sequence[Tensor],
    Bs: Sequence[Tensor],
    scales: Sequence[Tensor],
    topologies: str,
    solver: str,
) -> Tensor:
    tensors = [V, *weights, *Cs, *Bs, *scales]
    return _separate([_eager_mix(topologies, solver)(*tensors)], tensors)[0]


@_mix.register_fake
def _(V: Tensor, weights: Any, Cs: Any, Bs: Any, scales: Any, topologies: str, solver: str) -> Tensor:
    leads = [x.shape[:-2] for x in (*weights, *scales)] + [x.shape[:-3] for x in (*Cs, *Bs, V)]
    return V.new_empty(*torch.broadcast_shapes(*leads), *V.shape[-3:])


@custom_op("chimera_ssm::mix_backward", mutates_args=())
def _mix_backward(grad: Tensor, tensors: Sequence[Tensor], topologies: str, solver: str) -> list[Tensor]:
    return _gradients(_eager_mix(topologies, solver), tensors, grad)


@_mix_backward.register_fake
def _(grad: Tensor, tensors: Sequence[Tensor], topologies: str, solver: str) -> list[Tensor]:
    return [_like(x) for x in tensors]


@custom_op("chimera_ssm::mix_states", mutates_args=())
def _mix_states(
    V: Tensor, weight: Tensor, C: Tensor, B: Tensor, scale: Tensor, state: Tensor, topology: str
) -> tuple[Tensor, Tensor]:
    tensors = [V, weight, C, B, scale, state]
    y, leaving = _separate(list(_eager_mix_states(topology)(*tensors)), tensors)
    return y, leaving


@_mix_states.register_fake
def _(V: Tensor, weight: Any, C: Any, B: Any, scale: Any, state: Any, topology: str) -> tuple[Tensor, Tensor]:
    kept = 4 if isinstance(topology_of(topology), Batch) else 3
    leads = [weight.shape[:-2], scale.shape[:-2], C.shape[:-3], B.shape[:-3], V.shape[:-3], state.shape[:-kept]]
    lead, dtype = torch.broadcast_shapes(*leads), compute_dtype(V, weight, C, B, scale, state)
    return V.new_empty(*lead, *V.shape[-3:]), V.new_empty(*lead, *state.shape[-kept:], dtype=dtype)


@custom_op("chimera_ssm::mix_states_backward", mutates_args=())
def _mix_states_backward(grad: Tensor, grad_state: Tensor, tensors: Sequence[Tensor], topology: str) -> list[Tensor]:
    return _gradients(_eager_mix_states(topology), tensors, grad, grad_state)


@_mix_states_backward.register_fake
def _(grad: Tensor, grad_state: Tensor, tensors: Sequence[Tensor], topology: str) -> list[Tensor]:
    return [_like(x) for x in tensors]


def _save_states(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.topology = inputs
    ctx.save_for_backward(*tensors)


def _mix_states_adjoint(ctx: Any, grad: Tensor, grad_state: Tensor) -> tuple[Any, ...]:
    return *_mix_states_backward(grad, grad_state, list(ctx.saved_tensors), ctx.topology), None


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.topologies, ctx.solver = inputs
    ctx.counts = [len(x) for x in tensors if not isinstance(x, Tensor)]
    ctx.save_for_backward(*(y for x in tensors for y in ([x] if isinstance(x, Tensor) else x)))


def _mask_adjoint(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return _mask_backward(grad, *ctx.saved_tensors, ctx.topologies, ctx.solver), None, None


def _solve_adjoint(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    return *_solve_backward(grad, *ctx.saved_tensors, ctx.topologies, ctx.solver), None, None


def _mix_adjoint(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    grad = grad.contiguous() if is_gpu(grad.device) else grad
    dV, *rest = _mix_backward(grad, list(ctx.saved_tensors), ctx.topologies, ctx.solver)
    lists = []
    for count in ctx.counts:
        lists.append(rest[:count])
        rest = rest[count:]
    return dV, *lists, None, None


_mask.register_autograd(_mask_adjoint, setup_context=_save)
_solve.register_autograd(_solve_adjoint, setup_context=_save)
_mix.register_autograd(_mix_adjoint, setup_context=_save)
_mix_states.register_autograd(_mix_states_adjoint, setup_context=_save_states)


# The eager functions, as functions of tensors alone


_eager: dict[str, Callable[..., Any]] = {}


def implement(**functions: Callable[..., Any]) -> None:
    """Set the eager functions that the operators compute with: ``mask``, ``solve``, ``mix`` and ``mix_states``."""
    _eager.update(functions)


def _eager_mask(topology: str, solver: str) -> Callable[..., Tensor]:
    return lambda weight: _eager["mask"](topology_of(topology), weight, solver_of(solver))


def _eager_solve(topology: str, solver: str) -> Callable[..., Tensor]:
    return lambda weight, rhs: _eager["solve"](topology_of(topology), weight, rhs, solver_of(solver))


def _eager_mix(topologies: str, solver: str) -> Callable[..., Tensor]:
    parts = [topology_of(name) for name in topologies.split(";")]
    n = len(parts)

    def run(V: Tensor, *tensors: Tensor) -> Tensor:
        weights, Cs, Bs, scales = (list(tensors[k : k + n]) for k in range(0, 4 * n, n))
        return _eager["mix"](parts, weights, Cs, Bs, V, scales or [None] * n, solver_of(solver))

    return run


def _eager_mix_states(topology: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(V: Tensor, weight: Tensor, C: Tensor, B: Tensor, scale: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return _eager["mix_states"](topology_of(topology), weight, C, B, V, scale, state)

    return run


def _gradients(function: Callable[..., Any], tensors: Sequence[Tensor], *grads: Tensor) -> list[Tensor]:
    """Gradients of ``function(*tensors)``; of a tensor that is given twice the first place has it all."""
    leaf = Once(lambda x: x.detach().requires_grad_())
    with _recording(), torch.autocast(grads[0].device.type, enabled=False):
        leaves = [leaf(x) for x in tensors]
        distinct = list({id(x): x for x in leaves}.values())
        with backward_only():
            y = function(*leaves)
        found = torch.autograd.grad(y, distinct, grads, allow_unused=True)
    by_leaf = {id(x): g for x, g in zip(distinct, found, strict=True) if g is not None}
    gradients = [by_leaf.pop(id(x), None) for x in leaves]
    gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(tensors, gradients, strict=True)]
    return _separate(gradients, [*grads, *tensors])


@contextmanager
def _recording() -> Generator[None]:
    """Let autograd see what happens inside an operator, where PyTorch hides it."""
    keys = torch._C.DispatchKey
    with torch._C._PreserveDispatchKeyGuard(), torch.enable_grad():
        for key in (keys.AutogradFunctionality, keys.ADInplaceOrView):
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        yield


def _separate(results: list[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """Contiguous results that share memory neither with what was given nor with each other."""
    taken = {x.untyped_storage().data_ptr() for x in given}
    separate = []
    for x in results:
        x = x.detach().contiguous()
        x = x.clone() if x.untyped_storage().data_ptr() in taken else x
        taken.add(x.untyped_storage().data_ptr())
        separate.append(x)
    return separate


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
