"""Settings that image and text models share, and checks of the settings of all models."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

from transformers import PreTrainedConfig

from chimera_ssm.models.mixers import check_mixer
from chimera_ssm.nn.mixer_parameters import INITS, RESOLVENTS

INJECTION_CHOICES = (None, "hold", "step", "projected")


class ChimeraConfig(PreTrainedConfig):
    """Sizes and choices that image and text models have in common; the defaults are those of the ``…_base`` presets.

    Args:
        hidden_size: features of a patch or token.
        num_hidden_layers: number of blocks.
        state_size: N, the size of a state.
        num_heads: H, the number of heads; by default it follows from the width.
        expand: inner width in units of ``hidden_size``.
        groups: G, groups of heads that share B and C.
        injection: β of B̄ = β B: ``"hold"``, ``"step"`` or ``"projected"``, see `chimera_ssm.adjacency.injection`; if
            ``None``, hold where the weights allow it, else step.
        conv: whether V, B and C go through a local convolution.
        resolvent: the matrix L: ``"exact"``, or ``"identity"`` for L = I, for ablations.
        init: initial values, ``"average"`` or ``"paper"``, see `Chimera`; with ``"paper"``, the standard deviation of
            the weights is ``initializer_range`` at any width.
        mixer: the mixer of a block: ``"chimera"``, or a baseline that `chimera_lab.baselines` registers.
        drop_path: probability of dropping the last block in training; it rises linearly from 0 at the first block.
        initializer_range: standard deviation of initial weights of embeddings and projections at 768 features. It is
            multiplied by √(768 / hidden_size), so that the initial scale of a layer does not depend on its width.
        kwargs: arguments of all configurations of `transformers`, such as ``num_labels`` and ``id2label``.
    """

    #: Kind of model, for `chimera_ssm.models.mixers`.
    kind: ClassVar[str]
    _choices: ClassVar[Mapping[str, Sequence[Any]]] = {}
    _sizes: ClassVar[Sequence[str]] = ()
    _probabilities: ClassVar[Sequence[str]] = ()

    hidden_size: int = 768
    num_hidden_layers: int = 23
    state_size: int = 64
    num_heads: int | None = None
    expand: int = 2
    groups: int = 1
    injection: str | None = None
    conv: bool = True
    resolvent: str = "exact"
    init: str = "average"
    mixer: str = "chimera"
    drop_path: float = 0.0
    initializer_range: float = 0.02

    def __post_init__(self, **kwargs: Any) -> None:
        warn_of_misspelled(self, kwargs)
        super().__post_init__(**kwargs)
        check_mixer(self.kind, self.mixer)
        check_choices(self, self.choices())
        sizes = ["hidden_size", "num_hidden_layers", "state_size", "expand", "groups", *self._sizes]
        check_sizes(self, sizes if self.num_heads is None else [*sizes, "num_heads"])
        check_probabilities(self, ["drop_path", *self._probabilities])

    @classmethod
    def choices(cls) -> dict[str, Sequence[Any]]:
        """The values of fields that have a fixed list of them."""
        return {**cls._choices, "injection": INJECTION_CHOICES, "resolvent": RESOLVENTS, "init": INITS}


def warn_of_misspelled(config: Any, others: Iterable[str]) -> None:
    """Warn of settings that do not exist and resemble one that does; `transformers` would keep them as attributes."""
    known = {field.name for field in dataclasses.fields(config)} | {"num_labels"}
    for name in others:
        if name not in known and (near := get_close_matches(name, known, n=1, cutoff=0.8)):
            warnings.warn(
                f"{type(config).__name__} has no setting {name!r}, did you mean {near[0]!r}? It has no effect",
                stacklevel=4,
            )


def check_choices(config: Any, choices: Mapping[str, Sequence[Any]]) -> None:
    """Raise a ValueError if a field is not one of its choices."""
    for name, allowed in choices.items():
        if (value := getattr(config, name)) not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}; found {value!r}")


def check_sizes(config: Any, names: Iterable[str], least: int = 1) -> None:
    """Raise a ValueError if a field is not an integer of at least ``least``."""
    for name in names:
        check_size(name, getattr(config, name), least)


def check_size(name: str, size: object, least: int = 1) -> None:
    """Raise a ValueError if a size is not an integer of at least ``least``."""
    if not isinstance(size, int) or isinstance(size, bool) or size < least:
        raise ValueError(f"{name} must be an integer of at least {least}, found {size!r}")


def check_probabilities(config: Any, names: Iterable[str]) -> None:
    """Raise a ValueError if a field is not in [0, 1)."""
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} must be from 0 to below 1, found {getattr(config, name)}")
