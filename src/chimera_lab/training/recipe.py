"""The settings of a run: the recipe determines the result, the runtime configuration how it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chimera_lab.training.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """Settings that all kinds of data share; subclasses add those of their data and model."""

    kind: ClassVar[str]

    data: str = setting("", "the training data")
    seed: int = setting(0, "seed of all random numbers", least=0)
    epochs: int = setting(0, "passes over the training data; 0: given by `steps`", least=0)
    steps: int = setting(0, "optimizer steps; 0: given by `epochs`", least=0)
    batch_size: int = setting(64, "samples per step, over all devices", least=1)
    micro_batch: int | None = setting(
        None, "samples per device and forward pass; gradients are accumulated over the batch", least=1
    )
    lr: float = setting(1e-3, "peak learning rate", above=0)
    schedule: Literal["cosine", "linear", "constant"] = setting("cosine", "learning rate after the warm-up")
    warmup_epochs: float = setting(0.0, "epochs of linear warm-up", least=0)
    warmup_steps: int = setting(0, "steps of linear warm-up, in place of epochs", least=0)
    final_lr: float = setting(0.0, "learning rate at the end, as a fraction of the peak", least=0, most=1)
    betas: tuple[float, float] = setting((0.9, 0.999), "β₁ and β₂ of AdamW", least=0, below=1)
    weight_decay: float = setting(0.05, "weight decay of AdamW; biases, norms, step biases and D are exempt", least=0)
    decoupled: bool = setting(False, "decay by weight_decay itself, not by weight_decay times the learning rate")
    clip: float = setting(1.0, "maximum gradient norm; 0: no clipping", least=0)
    ema: float = setting(0.0, "decay of the weights' moving average, reached gradually; 0: none", least=0, below=1)
    eval_every: int = setting(0, "steps between evaluations; 0: one epoch", least=0)
    eval_batch: int = setting(256, "samples per device in evaluation", least=1, at_eval=True)
    train_limit: int | None = setting(None, "number of training samples to use, a fixed choice; none: all", least=1)
    validation: float = setting(
        0.0, "fraction of the training data to evaluate on instead of the test data", least=0, below=1
    )
    export: Literal["ema", "raw", "best"] = setting(
        "ema", "weights in model/; best: raw or averaged, whichever is best on validation data"
    )
    log_every: int = setting(10, "steps between rows of steps.csv", least=1)

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
        """Whether training evaluates on validation data, which may be used to choose weights."""
        return self.validation > 0


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig(Settings):
    """How a run is computed. With one CPU process, only the precision affects the result."""

    accelerator: Literal["auto", "cpu", "gpu", "mps"] = setting("auto", "the hardware to use")
    devices: int | None = setting(None, "processes or GPUs per node; none: one process, or all GPUs", least=1)
    nodes: int = setting(1, "machines", least=1)
    strategy: Literal["auto", "ddp", "fsdp"] = setting("auto", "how several devices are used")
    precision: Literal["32", "bf16", "16"] = setting("32", "bf16 and 16: mixed precision; masks stay in 32 bits")
    compile: Literal["auto", "yes", "no"] = setting(
        "auto", "compile the model without its head; auto: of images and text on GPUs, without fsdp"
    )
    workers: int = setting(0, "data loader processes; 0: load in the training process", least=0)
    checkpoint_every: int = setting(0, "steps between checkpoints; 0: by time and evaluation only", least=0)
    checkpoint_minutes: float = setting(5.0, "minutes between checkpoints", above=0)
