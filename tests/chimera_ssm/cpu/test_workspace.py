"""Buffers of freed tensors are used again: never by two tensors at once, never beyond the limit."""

import gc
import multiprocessing
import random
import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import chimera_ssm as chimera
from chimera_ssm.cpu import workspace as module
from chimera_ssm.cpu.workspace import Workspace, workspace

MEGABYTE = 1 << 20
NUMBERS = MEGABYTE // 4


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch):
    """Buffers of a megabyte are kept, so that tests are quick; none at first."""
    monkeypatch.setattr(module, "_SMALLEST", MEGABYTE)
    workspace.clear()
    yield
    chimera.set_workspace_limit(1 << 29)


def line_mix(num_nodes=2048, heads=4, seed=0, requires_grad=False):
    """A mix of 64 channels; by default its result has two megabytes."""
    generator = torch.Generator().manual_seed(seed)
    line = chimera.Line(num_nodes)
    weight, scale = chimera.dag_adjacency(line, torch.rand(heads, num_nodes, generator=generator))
    C, B, V = (torch.randn(h, num_nodes, 64, generator=generator) for h in (1, 1, heads))
    leaves = [x.requires_grad_(requires_grad) for x in (weight, C, B, V, scale)]
    return (lambda: chimera.mix(line, *leaves)), leaves


def overwrite(count=8, numbers=2 * NUMBERS):
    """Take and fill all buffers that might be free."""
    tensors = [workspace.empty((numbers,), torch.float32).fill_(torch.nan) for _ in range(count)]
    return [x.data_ptr() for x in tensors]


def numbers(x):
    """A copy."""
    return np.array(x.numpy() if isinstance(x, torch.Tensor) else x)


# Reuse


def test_a_buffer_is_used_again_when_its_tensor_is_gone():
    mix, _ = line_mix()
    first = mix()
    address, expected = first.data_ptr(), first.clone()
    del first
    second = mix()
    assert second.data_ptr() == address
    assert second.equal(expected)
    assert mix().data_ptr() != address


def test_a_training_step_that_is_repeated_touches_little_new_memory(monkeypatch):
    monkeypatch.undo()
    mix, leaves = line_mix(num_nodes=16_384, heads=10, requires_grad=True)
    gradient = torch.ones(10, 16_384, 64)
    faults = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.autograd.grad(mix(), leaves, gradient)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert faults[-1] < 5000, faults  # the buffers have 40,000 pages


def test_large_tensors_are_aligned_and_small_ones_are_not_kept():
    assert workspace.empty((NUMBERS + 1,), torch.float32).data_ptr() % 64 == 0
    workspace.clear()
    workspace.empty((NUMBERS - 1,), torch.float32)
    assert workspace.kept == 0
    assert workspace.empty((0, 4), torch.float32).shape == (0, 4)


def test_a_buffer_is_at_most_an_eighth_too_large():
    kept = Workspace(limit=100 * MEGABYTE)
    address = kept.empty((9 * NUMBERS,), torch.float32).data_ptr()
    assert kept.empty((7 * NUMBERS,), torch.float32).data_ptr() != address
    assert kept.empty((2, 2 * NUMBERS), torch.float64).data_ptr() == address


# Never two owners


@pytest.mark.parametrize(
    "share",
    [
        lambda y: y[:, 3:5],
        lambda y: y.numpy()[1],
        lambda y: y.numpy().reshape(-1)[5:].view(np.int32),
        lambda y: np.from_dlpack(y),
        lambda y: torch.from_dlpack(y),
        lambda y: torch.empty(0).set_(y.untyped_storage()),
        lambda y: memoryview(y.numpy()),
        lambda y: y.detach().unsqueeze(0).expand(2, -1, -1, -1),
    ],
    ids=["slice", "array", "view of an array", "numpy dlpack", "torch dlpack", "storage", "memoryview", "expanded"],
)
def test_memory_that_is_shared_is_not_used_again(share):
    mix, _ = line_mix()
    y = mix()
    address = y.data_ptr()
    shared = share(y)
    expected = numbers(shared)
    del y
    assert address not in overwrite()
    np.testing.assert_array_equal(numbers(shared), expected)
    del shared
    assert address in overwrite()


def test_what_autograd_saves_is_not_used_again():
    mix, leaves = line_mix(requires_grad=True)
    expected = torch.autograd.grad(mix().clone().square().sum(), leaves)
    loss = mix().square().sum()  # saves the result of the mix
    overwrite()
    for found, wanted in zip(torch.autograd.grad(loss, leaves), expected, strict=True):
        assert found.equal(wanted)


def test_live_tensors_of_many_threads_do_not_overlap():
    def work(seed):
        rng, live = random.Random(seed), []
        for _ in range(100):
            x = workspace.empty((rng.randint(NUMBERS, 2 * NUMBERS),), torch.float32)
            value = rng.random()
            live.append((x.fill_(value), torch.tensor(value)))
            if len(live) > 5:
                x, value = live.pop(rng.randrange(6))
                assert bool((x == value).all())
        return [x for x, _ in live]

    with ThreadPoolExecutor(4) as threads:
        live = [x for part in threads.map(work, range(4)) for x in part]
    ranges = sorted((x.data_ptr(), x.data_ptr() + x.nbytes) for x in live)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ranges))


def test_threads_that_mix_at_once_get_their_own_results():
    mixes = [line_mix(seed=seed, requires_grad=True) for seed in range(4)]

    def step(seed):
        mix, leaves = mixes[seed]
        y = mix()
        return [y, *torch.autograd.grad(y, leaves, torch.ones_like(y))]

    expected = [[x.detach().clone() for x in step(seed)] for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for seed, found in enumerate(threads.map(step, [k % 4 for k in range(16)])):
            assert all(x.equal(y) for x, y in zip(found, expected[seed % 4], strict=True))


# What may be done with a result


def test_results_may_be_changed_in_place():
    mix, _ = line_mix()
    expected = mix().clone()
    y = mix()
    y.mul_(2).add_(1)
    assert mix().equal(expected)
    torch.testing.assert_close(y, 2 * expected + 1)


def test_results_are_saved_without_the_rest_of_their_buffer(tmp_path):
    workspace.empty((2 * NUMBERS + 1000,), torch.float32)
    mix, _ = line_mix()
    y = mix()
    assert y.untyped_storage().nbytes() == y.nbytes
    torch.save(y, tmp_path / "y.pt")
    assert torch.load(tmp_path / "y.pt").equal(y)


def test_a_result_cannot_be_resized_beyond_its_buffer():
    mix, _ = line_mix()
    y = mix()
    expected = y[:1].clone()
    assert y.resize_(1, 2048, 64).equal(expected)
    with pytest.raises(RuntimeError, match="resize"):
        y.resize_(100, 2048, 64)


def test_a_result_may_be_moved_to_shared_memory():
    mix, _ = line_mix()
    y = mix()
    expected, address = y.clone(), y.data_ptr()
    y.share_memory_()
    assert address in overwrite()
    assert y.equal(expected)


def test_a_buffer_of_inference_mode_may_be_used_for_training():
    mix, leaves = line_mix(requires_grad=True)
    with torch.inference_mode():
        address = mix().data_ptr()
    y = mix()
    assert y.data_ptr() == address
    y.mul(2).sum().backward()
    assert all(x.grad.isfinite().all() for x in leaves)


# The limit


def test_the_newest_buffers_are_kept_up_to_the_limit():
    kept = Workspace(limit=10 * MEGABYTE)
    tensors = [kept.empty((size * NUMBERS,), torch.float32) for size in (3, 4, 5)]
    addresses = [x.data_ptr() for x in tensors]
    while tensors:
        del tensors[0]
    assert 9 * MEGABYTE <= kept.kept <= kept.limit
    again = [kept.empty((size * NUMBERS,), torch.float32) for size in (4, 5)]
    assert [x.data_ptr() for x in again] == addresses[1:]
    assert kept.kept == 0
    kept.empty((2 * NUMBERS,), torch.float32)
    kept.empty((11 * NUMBERS,), torch.float32)  # more than the limit: not kept, and what is there stays
    assert 2 * MEGABYTE <= kept.kept < 3 * MEGABYTE


def test_the_limit_can_be_set():
    mix, _ = line_mix()
    mix()
    assert workspace.kept >= 2 * MEGABYTE
    chimera.set_workspace_limit(0)
    assert workspace.kept == 0
    mix()
    assert workspace.kept == 0
    with pytest.raises(ValueError, match=r"0 bytes or more, found -1"):
        chimera.set_workspace_limit(-1)


def test_kept_buffers_are_freed_before_memory_runs_out(monkeypatch):
    kept, allocate = Workspace(limit=10 * MEGABYTE), np.empty
    kept.empty((2 * NUMBERS,), torch.float32)

    def scarce(*args):
        if kept.kept:
            raise MemoryError
        return allocate(*args)

    monkeypatch.setattr(module.np, "empty", scarce)
    assert kept.empty((4 * NUMBERS,), torch.float32).nbytes == 4 * MEGABYTE


# The lock


def test_a_tensor_that_is_freed_while_the_lock_is_held_does_not_wait():
    """As when the garbage collector runs while a buffer is looked for."""
    circle = [workspace.empty((NUMBERS,), torch.float32)]
    circle.append(circle)
    with workspace._lock:
        del circle
        gc.collect()
        assert workspace.empty((NUMBERS,), torch.float32).nbytes == MEGABYTE
    assert workspace.kept == 0
    workspace.empty((NUMBERS,), torch.float32)
    assert workspace.kept > 0


def _reuses(queue):
    mix, _ = line_mix()
    kept = workspace.kept
    first = mix().data_ptr()
    queue.put((kept, mix().data_ptr() == first))


def test_a_forked_child_begins_with_nothing_kept_and_a_free_lock():
    mix, _ = line_mix()
    mix()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with workspace._lock:
        child = context.Process(target=_reuses, args=(queue,))
        child.start()
    assert queue.get(timeout=60) == (0, True)
    child.join()
    assert workspace.kept > 0


class Mixes(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return line_mix(seed=index)[0]()


def test_workers_of_a_loader_hand_over_their_results():
    loader = DataLoader(Mixes(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    for index, y in enumerate(loader):
        torch.testing.assert_close(y, Mixes()[index])
