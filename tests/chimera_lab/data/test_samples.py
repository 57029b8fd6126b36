"""Randomness without history, and fixed choices of samples."""

import pytest
import torch

from chimera_lab.data.random import generator, seed_of, seeded
from chimera_lab.data.samples import Part, Samples, choose, split
from chimera_lab.training.loaders import loader


class Numbers(Samples):
    """Sample ``i`` is ``[i, a random number]``; classes repeat 0 0 0 1."""

    def __init__(self, size, classes=True):
        self.size, self.classes = size, classes

    def __len__(self):
        return self.size

    def sample(self, index):
        return torch.tensor([index, torch.rand(())])

    @property
    def labels(self):
        return (torch.arange(self.size) % 4 == 3).long() if self.classes else None


def test_seeds_are_fixed_forever():
    assert seed_of(0, "sample", 1, 2) == 3589256729514015514
    seeds = {seed_of(a, b) for a in range(30) for b in range(30)}
    assert len(seeds) == 900
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seeded_is_the_same_each_time_and_leaves_no_trace():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with seeded("here", 5):
        inside = torch.rand(2)
    assert torch.equal(torch.rand(3), expected)
    with seeded("here", 5):
        assert torch.equal(torch.rand(2), inside)
    assert torch.equal(torch.rand(2, generator=generator("here", 5)), inside)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_depends_on_seed_epoch_and_index_alone(workers):
    def draw(batches, seed=0):
        return torch.cat(list(loader(Numbers(8), batches, seed, workers)))[:, 1]

    first = draw([[(0, 3), (0, 4)], [(1, 3)]])
    assert torch.equal(draw([[(1, 3), (0, 4), (0, 3)]]), first[[2, 1, 0]])
    assert len(set(first.tolist())) == 3
    assert draw([[(0, 3)]], seed=1)[0] not in first


def test_choices_are_fixed_and_in_proportion():
    numbers = Numbers(400)
    chosen = choose(numbers, 100, "a")
    assert torch.equal(chosen, choose(numbers, 100, "a"))
    assert not torch.equal(chosen, choose(numbers, 100, "b"))
    assert chosen.unique().numel() == 100
    assert numbers.labels[chosen].sum() == 25
    assert numbers.labels[choose(numbers, 42, "a")].sum() in (10, 11)
    assert choose(Numbers(10, classes=False), 10, "a").tolist() == list(range(10))
    with pytest.raises(ValueError, match="cannot choose 11 of 10 samples for a; ask for fewer"):
        choose(Numbers(10), 11, "a")


def test_a_split_has_everything_once():
    chosen, rest = split(Numbers(41), 7, "a")
    assert (len(chosen), len(rest)) == (7, 34)
    found = [int(part.sample(i)[0]) for part in (chosen, rest) for i in range(len(part))]
    assert sorted(found) == list(range(41))
    twice = Part(rest, torch.tensor([0, 2]))
    assert int(twice.sample(1)[0]) == int(rest.indices[2])
    assert twice.labels.tolist() == rest.labels[[0, 2]].tolist()
    assert Part(Numbers(3, classes=False), torch.tensor([1])).labels is None
