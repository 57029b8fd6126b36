"""Matthews correlation, 0 where it is undefined."""

from __future__ import annotations

from torch import Tensor
from torchmetrics.classification import BinaryMatthewsCorrCoef


class Matthews(BinaryMatthewsCorrCoef):
    """The correlation of guesses with labels, 0 or 1 each.

    If all guesses are the same, it is 0, as GLUE's own program has it; torchmetrics takes a limit that is not.
    """

    def compute(self) -> Tensor:
        """``(tp · tn − fp · fn) / √((tp + fp)(tp + fn)(tn + fp)(tn + fn))`` of all guesses so far."""
        (tn, fp), (fn, tp) = self.confmat.double()
        scale = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)).sqrt()
        return (tp * tn - fp * fn) / scale.clamp(min=1)
