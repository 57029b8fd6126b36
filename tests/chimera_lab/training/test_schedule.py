"""The schedule: every sample once in an epoch, shares that make up the batch, laps, learning rates."""

from dataclasses import replace

import pytest

from chimera_lab.training.loaders import IntervalBatches, evaluation_batches
from chimera_lab.training.schedule import DeviceShare, StepSchedule, learning_rate
from tests.chimera_lab.training.tiny import TINY


def test_an_epoch_has_every_sample_once_but_for_the_rest():
    schedule = StepSchedule.of(replace(TINY, batch_size=8), 50)
    assert (schedule.steps_per_epoch, schedule.total) == (6, 18)
    orders = []
    for epoch in range(3):
        batches = [schedule.batch(step) for step in range(6 * epoch, 6 * epoch + 6)]
        assert {e for e, _ in batches} == {epoch}
        orders.append([int(i) for _, indices in batches for i in indices])
        assert len(set(orders[-1])) == 48
        assert set(orders[-1]) <= set(range(50))
    assert orders[0] != orders[1] != orders[2]
    again = StepSchedule.of(replace(TINY, batch_size=8), 50)
    assert [int(i) for s in range(6) for i in again.batch(s)[1]] == orders[0]
    other = StepSchedule.of(replace(TINY, batch_size=8, seed=1), 50)
    assert [int(i) for s in range(6) for i in other.batch(s)[1]] != orders[0]


@pytest.mark.parametrize(("world", "micro"), [(1, None), (1, 4), (2, None), (2, 2), (4, 100)])
def test_shares_make_up_the_batch(world, micro):
    recipe = replace(TINY, batch_size=16, micro_batch=micro)
    schedule = StepSchedule.of(recipe, 100)
    shares = [DeviceShare.of(recipe, rank, world) for rank in range(world)]
    parts = [part for share in shares for part in schedule.micro_batches(7, share)]
    epoch, indices = schedule.batch(7)
    assert {len(part) for part in parts} == {min(micro or 16, 16 // world)}
    assert sorted(place for part in parts for place in part) == sorted((epoch, int(i)) for i in indices)


def test_a_lap_that_was_interrupted_goes_on_where_it_was():
    schedule = StepSchedule.of(replace(TINY, batch_size=16, eval_every=4, epochs=0, steps=10), 100)
    share = DeviceShare(0, 1, 2)
    whole = [part for step in (0, 4, 8) for part in IntervalBatches(schedule, share, step)]
    assert [schedule.interval_end(step) for step in range(10)] == [4, 4, 4, 4, 8, 8, 8, 8, 10, 10]
    assert [schedule.intervals_left(step) for step in range(11)] == [3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 0]
    rest = IntervalBatches(schedule, share, 3)
    assert len(rest) == 2
    assert list(rest) == whole[6:8]


@pytest.mark.parametrize(("size", "batch", "world"), [(10, 4, 1), (11, 4, 2), (2, 256, 2), (450, 7, 3)])
def test_evaluation_sees_every_sample_once_in_as_many_batches_on_each_device(size, batch, world):
    found = [evaluation_batches(size, batch, rank, world) for rank in range(world)]
    assert len({len(batches) for batches in found}) == 1
    assert sorted(index for batches in found for part in batches for _, index in part) == list(range(size))
    assert all(0 < len(part) <= batch for batches in found for part in batches)


def test_learning_rate_by_hand():
    recipe = replace(TINY, lr=1.0, batch_size=10, epochs=10, warmup_epochs=2, final_lr=0.1)
    schedule = StepSchedule.of(recipe, 20)  # 20 steps, 4 of them warm-up
    rates = [learning_rate(recipe, schedule, step) for step in range(20)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[12] == pytest.approx(0.1 + 0.9 * 0.5)
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert learning_rate(recipe, schedule, 20) == pytest.approx(0.1)
    linear = replace(recipe, schedule="linear", warmup_epochs=0.0, warmup_steps=10)
    assert learning_rate(linear, schedule, 15) == pytest.approx(0.1 + 0.9 * 0.5)
    assert learning_rate(replace(recipe, schedule="constant"), schedule, 19) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepSchedule.of(TINY, 31), "a batch has 32 samples, but there are only 31"),
        (lambda: DeviceShare.of(TINY, 0, 5), "cannot be shared by 5 devices"),
        (lambda: DeviceShare.of(replace(TINY, micro_batch=12), 0, 1), "make micro_batch a divisor of 32"),
        (lambda: evaluation_batches(1, 1, 0, 2), "1 samples to evaluate for 2 devices"),
    ],
)
def test_what_does_not_come_out_even_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
