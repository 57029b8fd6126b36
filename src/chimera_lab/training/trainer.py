"""Lightning's Trainer for a run, with its errors and messages reduced to what users need."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, Strategy
from lightning.pytorch.utilities.exceptions import SIGTERMException

from chimera_lab.training.checkpoints import DurableCheckpointIO
from chimera_lab.training.recipe import Recipe, RuntimeConfig
from chimera_lab.training.schedule import DeviceShare
from chimera_lab.training.stopping import Interrupted

_PRECISION: dict[str, Any] = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def create_trainer(recipe: Recipe, runtime: RuntimeConfig, callbacks: list[Callback], max_epochs: int = 1) -> L.Trainer:
    """A Trainer that leaves logging, checkpoints and progress to our callbacks."""
    if runtime.precision == "16" and (runtime.accelerator == "cpu" or not torch.accelerator.is_available()):
        raise ValueError("precision 16 needs a GPU; use bf16 or 32 on a CPU")
    trainer = L.Trainer(
        accelerator=runtime.accelerator,
        devices=runtime.devices or "auto",
        num_nodes=runtime.nodes,
        strategy=_strategy(recipe, runtime),
        precision=_PRECISION[runtime.precision],
        max_epochs=max_epochs,
        gradient_clip_val=recipe.clip or None,
        callbacks=callbacks,
        plugins=[DurableCheckpointIO()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,
    )
    trainer.accumulate_grad_batches = DeviceShare.of(recipe, 0, trainer.world_size).accumulate
    return trainer


def _strategy(recipe: Recipe, runtime: RuntimeConfig) -> str | Strategy:
    if runtime.strategy == "fsdp":
        if not torch.cuda.is_available():
            raise ValueError("strategy fsdp needs GPUs; use ddp for several processes on CPUs")
        if recipe.export == "best":
            raise ValueError(
                "export=best needs all weights in one place; use another strategy than fsdp, or export=ema"
            )
        return FSDPStrategy(state_dict_type="full", use_orig_params=True)
    several = runtime.strategy == "ddp" or (runtime.devices or 1) * runtime.nodes > 1
    return DDPStrategy(broadcast_buffers=False) if several else "auto"


@contextmanager
def plain_errors() -> Generator[None]:
    """Reduce the error of a loader process, whose message is a traceback, to its last line."""
    try:
        yield
    except SIGTERMException:  # before our handlers were installed
        raise Interrupted("interrupted") from None
    except ValueError as error:
        if not str(error).startswith("Caught ValueError in DataLoader worker"):
            raise
        raise ValueError(str(error).strip().splitlines()[-1].removeprefix("ValueError: ")) from error


@contextmanager
def quiet_lightning() -> Generator[None]:
    """Suppress Lightning's advice on loader processes and its notes on devices."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*(LeafSpec|pin_memory|lr_scheduler).*")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
