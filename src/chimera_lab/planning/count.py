"""The work of a training step, counted while a small one runs: few layers, few samples.

Every layer costs the same, and so does every sample: the work of many of them is known from that of one and two.
Steps run in plain PyTorch, as they would on a GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry, shape_wrapper

from chimera_lab.data.random import seeded
from chimera_lab.training.recipe import Recipe
from chimera_lab.training.settings import as_dict, from_dict
from chimera_lab.training.task import Task
from chimera_ssm.ops.compiled import plain_pytorch
from chimera_ssm.ops.custom_ops import as_operators
from chimera_ssm.ops.flops import FLOP_FORMULAS

#: Operations that read no more of their first tensor than they write.
_PICKING = ("index", "index_select", "gather", "embedding", "constant_pad_nd")


def _convolution_backward(grad: Any, x: Any, weight: Any, *options: Any, **_: Any) -> int:
    """As often as in the forward pass for each gradient that is asked for; PyTorch's own formula forgets groups."""
    return 2 * prod(grad) * prod(weight[1:]) * sum(options[-1][:2])


_FORMULAS = {**FLOP_FORMULAS, torch.ops.aten.convolution_backward: _convolution_backward}
_CONVOLUTIONS = torch.ops.aten.convolution, torch.ops.aten.convolution_backward


@dataclass(frozen=True)
class Work:
    """What a device does in a step, forward and backward, without the optimiser's part.

    Attributes:
        products: FLOPs of matrix products outside mixes.
        mixes: FLOPs of mixes, as the solvers count them.
        half: FLOPs of all matrix products that plain PyTorch makes in 16 bits, those inside mixes included.
        single: the same in 32 bits or more.
        moved: bytes that all other operations read and write.
        operations: how many there are.
        kept: bytes of tensors that the forward pass leaves for the backward pass.
        largest: bytes of the largest tensor that is made.
    """

    products: float
    mixes: float
    half: float
    single: float
    moved: float
    operations: float
    kept: float
    largest: float

    def __add__(self, other: Work) -> Work:
        return Work(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: float) -> Work:
        return Work(*(factor * a for a in astuple(self)))

    def __sub__(self, other: Work) -> Work:
        return self + other * -1


def count(recipe: Recipe, task: Task, samples: int, half: torch.dtype | None = None) -> Work:
    """The work of one micro-batch, from small steps: with one and two layers, and one and two samples.

    Graphs differ in size, so that two of them tell nothing of others: their micro-batch is run as it is.

    Args:
        recipe: what is trained; its number of layers is taken from ``num_hidden_layers``.
        task: with data or stand-ins.
        samples: of the micro-batch.
        half: what autocast should compute in; nothing for 32 bits.
    """

    def with_layers(layers: int) -> Work:
        if recipe.kind == "graph":
            return count_step(recipe, task, layers, samples, half)
        one, two = (count_step(recipe, task, layers, few, half) for few in (1, 2))
        return _line(one, two, samples)

    return _line(with_layers(1), with_layers(2), layers_of(recipe))


def layers_of(recipe: Recipe) -> int:
    """Layers of the model that a recipe builds."""
    layers = getattr(recipe, "num_hidden_layers", None)
    if layers is None:
        raise ValueError(
            f"a {recipe.kind} recipe goes on with a model that is there already, of a size that it does not know; "
            "plan the recipe that makes the model, such as text/c4"
        )
    return layers


def _line(one: Work, two: Work, at: int) -> Work:
    """The value at ``at`` of a straight line through those at 1 and 2."""
    return one + (two - one) * (at - 1)


def count_step(recipe: Recipe, task: Task, layers: int, samples: int, half: torch.dtype | None = None) -> Work:
    """The work of a forward and a backward pass with so many layers and samples, by running them."""
    flops = FlopCounterMode(display=False, custom_mapping=_FORMULAS)
    with as_operators(), flops:
        small_step(recipe, task, layers, samples)()
    by_operator = flops.get_flop_counts()["Global"]
    mixes = sum(n for operator, n in by_operator.items() if operator in FLOP_FORMULAS)
    step = small_step(recipe, task, layers, samples, half)
    with plain_pytorch(), Traffic() as traffic:
        step(traffic.forward_is_over)
    return Work(
        products=flops.get_total_flops() - mixes,
        mixes=mixes,
        half=traffic.half,
        single=traffic.single,
        moved=traffic.moved,
        operations=traffic.operations,
        kept=traffic.kept,
        largest=traffic.largest,
    )


def small_step(
    recipe: Recipe, task: Task, layers: int, samples: int, half: torch.dtype | None = None
) -> Callable[..., None]:
    """A forward and a backward pass of the recipe's model with so many layers, on its first samples.

    The function that is returned calls its argument, if it is given one, between the two.
    """
    with seeded(0, "plan"):
        model = task.build_model(from_dict(type(recipe), as_dict(recipe) | {"num_hidden_layers": layers}))
        data = task.train_samples()
        batch = data.collate([data.sample(index) for index in range(samples)])
    model.train()

    def step(between: Callable[[], None] = lambda: None) -> None:
        autocast = nullcontext() if half is None else torch.autocast("cpu", half)
        with sdpa_kernel(SDPBackend.MATH), seeded(0, "step"):  # attention as products that can be counted
            with autocast:
                loss = task.step(model, batch).loss
            between()
            loss.backward()
        model.zero_grad()

    return step


class Traffic(TorchDispatchMode):
    """Counts what operations read, write, multiply and keep alive. Views and reshapes cost nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.half = self.single = self.moved = 0.0
        self.operations = self.alive = self.kept = self.largest = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        read = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        made = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        inside = {x.untyped_storage()._cdata for x in read}
        if all(x.untyped_storage()._cdata in inside for x in made) and not func._schema.is_mutable:
            return out
        self.operations += 1
        for x in made:
            self._keep(x)
        self._count(func, args, kwargs, out, read, made)
        return out

    def forward_is_over(self) -> None:
        """What is alive now is kept for the backward pass."""
        self.kept = self.alive

    def _count(self, func: Any, args: Any, kwargs: Any, out: Any, read: list[Tensor], made: list[Tensor]) -> None:
        kind = func.overloadpacket
        formula = shape_wrapper(_convolution_backward) if kind is _CONVOLUTIONS[1] else flop_registry.get(kind)
        if formula is not None:
            flops = formula(*args, **(kwargs or {}), out_val=out)
            if made[0].dtype in (torch.float16, torch.bfloat16):
                self.half += flops
            else:
                self.single += flops
            if kind not in _CONVOLUTIONS:  # with few channels in a group, these also wait for memory
                return
        if kind.__name__ in _PICKING:
            read = made
        self.moved += sum(_bytes(x) for x in (*read, *made))

    def _keep(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        if storage._cdata in self._known:
            return
        self._known.add(storage._cdata)
        self.alive += storage.nbytes()
        self.largest = max(self.largest, storage.nbytes())
        weakref.finalize(storage, self._release, storage._cdata, storage.nbytes())

    def _release(self, which: int, size: int) -> None:
        self._known.discard(which)
        self.alive -= size


def _bytes(x: Tensor) -> int:
    """Bytes behind a tensor; what is expanded is read once."""
    return min(x.numel() * x.element_size(), x.untyped_storage().nbytes())
