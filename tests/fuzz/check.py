"""Run a case and compare: values and every gradient with the dense truth, within bounds of rounding errors."""

from contextlib import ExitStack, contextmanager
from math import prod
from unittest.mock import patch

import torch

import chimera_ssm as chimera
from chimera_ssm.cpu import threads as thread_pool
from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.ops import custom_ops, functional
from chimera_ssm.ops.scan import cpu_line
from chimera_ssm.ops.sweep import cpu_state
from tests.fuzz.cases import draw_case
from tests.fuzz.layers import LayerCase, draw_layer, layer_differences
from tests.fuzz.truth import truth_and_bounds

#: Rounding errors of a result in units of its bound: sums of n numbers have √n of them, and these are short.
FACTOR = 16
#: What Newton's step leaves in the truth of entries that are zero, in units of the largest bound.
TRUTH = torch.finfo(torch.float64).eps ** 2


def draw(seed):
    """The case of a seed: one in eight calls a layer, the others a function of `chimera_ssm.ops`."""
    return draw_layer(seed) if seed % 8 == 0 else draw_case(seed)


def failures(case, threads=1):
    """What is wrong with a case with this many threads of PyTorch, a line each; the truth has one."""
    try:
        differences = _layer_failures if isinstance(case, LayerCase) else _function_failures
        return list(differences(case, threads))
    except Exception as error:  # whatever a case raises is what is wrong with it
        return [f"{type(error).__name__}: {error}".splitlines()[0]]


def _layer_failures(case, threads):
    """Relative to the largest value and the largest gradient: what is small may be what is left of large terms."""
    comparisons, condition = layer_differences(case, _changed(case, threads))
    eps, (values, *gradients) = torch.finfo(case.mixer.norm.D.dtype).eps, [expected for _, _, expected in comparisons]
    largest = [values.abs().max()] * 2 + [max(g.abs().max() for g in gradients if g.numel())] * (len(gradients) - 1)
    for (what, found, expected), scale in zip(comparisons, largest, strict=True):
        yield from _compare(what, found, expected, condition**2 * scale * torch.ones_like(expected), eps)


def _function_failures(case, threads):
    given, gradient = case.tensors()
    arguments = {
        f"{name}[{k}]" if isinstance(value, list) else name: x
        for name, value in vars(given).items()
        for k, x in enumerate(value if isinstance(value, list) else [value])
        if x is not None
    }
    wanted = list({id(x): x for x in arguments.values() if x.requires_grad}.values())
    before = [x.detach().clone() for x in arguments.values()]
    with _changed(case, threads):
        y = _call(case, given)
        grad = gradient(y.shape, y.dtype)
        before.append(grad.clone())
        found = torch.autograd.grad(y, wanted, grad, allow_unused=True) if y.requires_grad else [None] * len(wanted)
    for name, x, original in zip(
        [*arguments, "the incoming gradient"], [*arguments.values(), grad], before, strict=True
    ):
        if not torch.equal(x, original):
            yield f"{name} was changed in place"
            return
    (expected, expected_grads), (bound, bounds) = truth_and_bounds(case, given, grad)
    eps = torch.finfo(_compute_dtype(arguments.values())).eps
    if y.dtype != _shown_by(case, given).dtype:
        yield f"the result is {y.dtype}, expected {_shown_by(case, given).dtype}"
    yield from _compare("values", y, expected, bound, eps)
    by_id = {id(x): g for x, g in zip(wanted, found, strict=True)}
    for name, x in arguments.items():
        if id(x) in by_id:
            x_grad = by_id.pop(id(x))
            x_grad = torch.zeros_like(x) if x_grad is None else x_grad
            yield from _compare(f"the gradient of {name}", x_grad, expected_grads[id(x)], bounds[id(x)], eps)


@contextmanager
def _changed(case, threads):
    """The circumstances of the call and its backward pass."""
    with ExitStack() as contexts:
        for context in _contexts(case):
            contexts.enter_context(context)
        torch.set_num_threads(threads)
        contexts.callback(torch.set_num_threads, 1)
        yield


def _contexts(case):
    """What is changed for the call."""
    if case.engine != "kernels":
        yield disable_kernels() if case.engine == "plain" else custom_ops.as_operators()
    if case.mode != "grad":
        yield torch.no_grad() if case.mode == "no_grad" else torch.inference_mode()
    if case.form is not None:
        form = {"mask": functional.mix_by_mask, "state": functional.mix_by_state}[case.form]
        yield patch.multiple(functional, mix_by_mask=form, mix_by_state=form)
    if case.divided:
        yield patch.multiple(cpu_line, _CHUNK=16, _BUNDLE=3 * 16 * 16)
        yield patch.object(cpu_state, "_division", lambda *args, **options: (16, 3))
    yield patch.object(thread_pool, "_WORTH_A_THREAD", 1)


def _call(case, given):
    topology = case.topologies[0]
    if case.function == "mask":
        return chimera.mask(topology, given.weight[0], case.solver)
    if case.function == "solve":
        return chimera.solve(topology, given.weight[0], given.rhs, case.solver)
    if len(case.topologies) == 1:
        only = (x[0] for x in (given.weight, given.C, given.B))
        return chimera.mix(topology, *only, given.V, given.scale[0], solver=case.solver)
    return chimera.mix(case.topologies, given.weight, given.C, given.B, given.V, given.scale, solver=case.solver)


def _shown_by(case, given):
    """The argument whose dtype the result has."""
    return given.weight[0] if case.function == "mask" else given.rhs if case.function == "solve" else given.V


def _compute_dtype(tensors):
    dtype = torch.float32
    for x in tensors:
        dtype = torch.promote_types(dtype, x.dtype)
    return dtype


def _compare(what, found, expected, bound, eps):
    """Whether every entry is within its bound, and within the rounding of the dtype it is given in."""
    if found.shape != expected.shape:
        yield f"{what}: shape {list(found.shape)}, expected {list(expected.shape)}"
        return
    own = torch.finfo(found.dtype)
    allowed = FACTOR * eps * bound + own.eps * expected.abs() + own.tiny
    allowed += TRUTH * bound.amax() if bound.numel() else 0
    error = (found.double() - expected).abs()
    wrong = ~(error <= allowed)
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        yield (
            f"{what}: {int(wrong.sum())} of {prod(found.shape)} are wrong, the first at {list(place)} is "
            f"{found[place].item():.9g}, expected {expected[place].item():.9g} ± {allowed[place].item():.1e}"
        )
