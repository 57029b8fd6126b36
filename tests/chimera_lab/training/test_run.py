"""Kills at random moments, resumption, and a second process in the same folder; `kills.py` does many more."""

import os
import random

from tests.chimera_lab.training.kills import kill_and_resume


def test_killed_runs_are_resumed_bitwise_and_nobody_else_gets_their_folder(tmp_path):
    happened = kill_and_resume(tmp_path, 2, random.Random(os.getpid()))
    assert happened["kills"] >= 2
    assert happened["runs"] >= 1
    assert happened["refused"] >= 1
