"""Matthews correlation, 0 where it is undefined."""

from __future__ import annotations

from torch import Tensor
from torchmetrics.classification import BinaryMatthewsCorrCoef


class Matthews(BinaryMatthewsCorrCoef):
    """The correlation of binary predictions with binary labels.

    It is 0 if all predictions are equal, as in GLUE's reference implementation; torchmetrics returns a limit instead.
    """

    def compute(self) -> Tensor:
        """``(tp · tn − fp · fn) / √((tp + fp)(tp + fn)(tn + fp)(tn + fn))`` of all predictions."""
        (tn, fp), (fn, tp) = self.confmat.double()
        scale = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)).sqrt()
        return (tp * tn - fp * fn) / scale.clamp(min=1)
