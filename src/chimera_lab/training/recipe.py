"""The settings of a run: the recipe says what is computed, the machine how."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from chimera_lab.training.settings import Settings, setting

if TYPE_CHECKING:
    from chimera_lab.training.task import Task

_KINDS = {
    "image": "chimera_lab.training.image_recipe:ImageRecipe",
    "text": "chimera_lab.training.text_recipe:TextRecipe",
    "glue": "chimera_lab.training.glue_recipe:GlueRecipe",
    "graph": "chimera_lab.training.graph_recipe:GraphRecipe",
}


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """What every kind of data has; a subclass adds its own settings and gives the task."""

    kind: ClassVar[str]

    data: str = setting("", "what to train on")
    seed: int = setting(0, "all randomness follows from it", least=0)
    epochs: int = setting(0, "passes over the training data; 0: as many as `steps` need", least=0)
    steps: int = setting(0, "steps of the optimiser; 0: as many as `epochs` have", least=0)
    batch_size: int = setting(64, "samples in a step, over all devices", least=1)
    micro_batch: int | None = setting(
        None, "samples a device treats at once; gradients are added up to the batch", least=1
    )
    lr: float = setting(1e-3, "peak of the learning rate", above=0)
    schedule: Literal["cosine", "linear", "constant"] = setting("cosine", "of the learning rate after the warm-up")
    warmup_epochs: float = setting(0.0, "epochs of linear warm-up", least=0)
    warmup_steps: int = setting(0, "steps of linear warm-up, in place of epochs", least=0)
    final_lr: float = setting(0.0, "learning rate at the end, as a fraction of the peak", least=0, most=1)
    betas: tuple[float, float] = setting((0.9, 0.999), "momenta of AdamW", least=0, below=1)
    weight_decay: float = setting(0.05, "of AdamW; biases, norms, step biases and D have none", least=0)
    decoupled: bool = setting(False, "decay by weight_decay itself, not by weight_decay times the learning rate")
    clip: float = setting(1.0, "largest norm of a gradient; 0: no clipping", least=0)
    ema: float = setting(0.0, "decay of the weights' moving average, reached gradually; 0: none", least=0, below=1)
    eval_every: int = setting(0, "steps from one evaluation to the next; 0: an epoch", least=0)
    eval_batch: int = setting(256, "samples a device evaluates at once", least=1, at_eval=True)
    train_limit: int | None = setting(None, "take only this many training samples, a fixed choice", least=1)
    validation: float = setting(
        0.0, "part of the training data to evaluate on in place of the test data", least=0, below=1
    )
    export: Literal["ema", "raw", "best"] = setting(
        "ema", "weights that model/ holds; best: raw or averaged, best on validation data"
    )
    log_every: int = setting(10, "steps from one line of steps.csv to the next", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.epochs) == bool(self.steps):
            raise ValueError(
                f"a run has either epochs or steps, the other is 0; found epochs={self.epochs} and steps={self.steps}"
            )
        if self.warmup_epochs and self.warmup_steps:
            raise ValueError("the warm-up has either epochs or steps, found both warmup_epochs and warmup_steps")
        if self.export == "best" and not self.evaluates_on_validation:
            raise ValueError("export=best chooses by validation data: set validation, for example to 0.1")

    @property
    def evaluates_on_validation(self) -> bool:
        """Whether evaluations while training are on validation data, by which weights may be chosen."""
        return self.validation > 0

    def task(self) -> Task:
        """What the loop needs to know of this kind of data."""
        raise NotImplementedError

    def parameters(self) -> int:
        """Parameters of the model that are trained."""
        return sum(p.numel() for p in self.task().build_model(self).parameters() if p.requires_grad)

    def with_parameters(self, target: int) -> Self:
        """The recipe with its width changed so that the model has ``target`` parameters, within 3 %."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Machine(Settings):
    """How a run is computed. On one CPU process these change nothing but the time it takes; precision does."""

    accelerator: Literal["auto", "cpu", "gpu", "mps"] = setting("auto", "what to compute on")
    devices: int | None = setting(None, "processes or GPUs on each node; none: one, or all GPUs", least=1)
    nodes: int = setting(1, "machines", least=1)
    strategy: Literal["auto", "ddp", "fsdp"] = setting("auto", "how several devices share the work")
    precision: Literal["32", "bf16", "16"] = setting("32", "bf16 and 16: mixed precision; solves stay in 32 bits")
    workers: int = setting(0, "processes that prepare samples; 0: none beside the training", least=0)
    checkpoint_every: int = setting(0, "steps from one checkpoint to the next; 0: by time and epoch alone", least=0)
    checkpoint_minutes: float = setting(5.0, "minutes from one checkpoint to the next", above=0)


def recipe_class(kind: str) -> type[Recipe]:
    """The class of recipes for a kind of data."""
    if kind not in _KINDS:
        raise ValueError(f"unknown kind of data {kind!r}; there are: {', '.join(_KINDS)}")
    module, _, name = _KINDS[kind].partition(":")
    return getattr(import_module(module), name)
