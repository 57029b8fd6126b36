"""What a run would take on other hardware: its work is counted in small steps here, its time estimated."""

from chimera_lab.planning.count import Work, count, count_step
from chimera_lab.planning.estimate import Estimate, estimate
from chimera_lab.planning.hardware import GPUS, Hardware, find_gpu

__all__ = ["GPUS", "Estimate", "Hardware", "Work", "count", "count_step", "estimate", "find_gpu"]
