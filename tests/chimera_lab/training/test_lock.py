"""Folders that one process has at a time: others are refused, kills leave no lock, empty folders vanish."""

import multiprocessing
import os
import socket
import time

import pytest

from chimera_lab.training.lock import held, made
from chimera_lab.training.run import new_folder

FORK = multiprocessing.get_context("fork")


def hold(folder, ready, children=0):
    """Hold a folder for ever, perhaps with a child as loaders have."""
    with held(folder):
        if children:
            FORK.Process(target=time.sleep, args=(5,), daemon=True).start()
        ready.set()
        time.sleep(60)


@pytest.fixture
def holder(tmp_path, request):
    """Another process that has the folder."""
    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(tmp_path / "run", ready, getattr(request, "param", 0)))
    process.start()
    assert ready.wait(30)
    yield process
    process.kill()
    process.join()


def test_a_second_process_is_refused_and_told_of_the_first(holder, tmp_path):
    day = time.strftime("%Y-%m-%d")
    message = rf"run is in use by process {holder.pid} on {socket.gethostname()} since {day} \d\d:\d\d:\d\d: wait"
    for _ in range(2):
        with pytest.raises(ValueError, match=message), held(tmp_path / "run"):
            pass


@pytest.mark.parametrize("holder", [0, 1], indirect=True)
def test_a_kill_leaves_no_lock_even_if_children_live_on(holder, tmp_path):
    holder.kill()
    holder.join()
    with held(tmp_path / "run"):
        assert str(os.getpid()) in (tmp_path / "run" / ".lock").read_text()
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("name", ["LOCAL_RANK", "SLURM_PROCID"])
def test_further_processes_of_a_run_share_the_lock_of_the_first(holder, tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    with held(tmp_path / "run"):
        pass


def test_a_process_enters_again_where_it_is(tmp_path):
    with held(tmp_path / "run"), held(tmp_path / "x" / ".." / "run"):
        (tmp_path / "run" / "file").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["file"]


def test_folders_that_stay_empty_are_removed(tmp_path):
    (tmp_path / "before").mkdir()
    with held(tmp_path / "before" / "new" / "run"):
        assert (tmp_path / "before" / "new" / "run").is_dir()
    assert list((tmp_path / "before").iterdir()) == []
    with pytest.raises(FileExistsError), made(tmp_path / "before", exist_ok=False):
        pass


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda _: "now")
    with new_folder("image/digits") as first, new_folder("image/digits") as second:
        assert [str(first), str(second)] == ["runs/image-digits-now", "runs/image-digits-now-1"]
        (second / "file").touch()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["image-digits-now-1"]


def test_many_processes_that_start_at_once_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda _: "now")
    start, names = FORK.Barrier(4), FORK.SimpleQueue()
    processes = [FORK.Process(target=_take_folder, args=(start, names)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len({names.get() for _ in processes}) == 4


def _take_folder(start, names):
    start.wait()
    with new_folder("image/digits") as folder:
        names.put(str(folder))
        start.wait()
