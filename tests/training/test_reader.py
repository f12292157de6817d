from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.exit_codes import BadData
from training.reader import Reader

# samples, global batch, ranks, seed
uneven = st.tuples(st.integers(1, 60), st.integers(7, 40), st.integers(1, 7), st.integers(0, 5))
shapes = st.tuples(st.integers(1, 60), st.integers(1, 12), st.sampled_from([1, 2, 3]), st.integers(0, 5))


def global_batches(samples: int, share: int, workers: int, seed: int, steps: int) -> list[list[int]]:
    """What all ranks read together."""
    readers = [Reader(samples, share * workers, seed, rank, workers) for rank in range(workers)]
    return [[int(index) for reader in readers for index in reader.next_batch()] for _ in range(steps)]


@settings(deadline=None)
@given(shapes)
def test_every_epoch_holds_every_sample_once(shape: tuple[int, int, int, int]) -> None:
    samples, share, workers, seed = shape
    steps = 2 * samples
    stream = [index for batch in global_batches(samples, share, workers, seed, steps) for index in batch]
    for epoch in range(len(stream) // samples):
        assert sorted(stream[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 8), st.integers(0, 5))
def test_the_order_is_the_same_whatever_the_number_of_workers(samples: int, share: int, seed: int) -> None:
    one, two, three = (global_batches(samples, share * 6 // n, n, seed, 5) for n in (1, 2, 3))
    assert one == two == three


@settings(deadline=None)
@given(shapes, st.integers(0, 20))
def test_a_restored_reader_goes_on_with_the_very_next_sample(shape: tuple[int, int, int, int], steps: int) -> None:
    samples, share, workers, seed = shape
    reader = Reader(samples, share * workers, seed, workers - 1, workers)
    for _ in range(steps):
        reader.next_batch()
    other = Reader(samples, share * workers, seed, workers - 1, workers)
    other.restore(json.loads(json.dumps(reader.state())))
    for _ in range(5):
        np.testing.assert_array_equal(other.next_batch(), reader.next_batch())


@settings(deadline=None)
@given(uneven)
def test_slices_make_up_the_batch_and_weigh_as_much_when_ranks_do_not_divide_it(
    shape: tuple[int, int, int, int],
) -> None:
    samples, batch, ranks, seed = shape
    one = Reader(samples, batch, seed, 0, 1)
    readers = [Reader(samples, batch, seed, rank, ranks) for rank in range(ranks)]
    slices = []
    for _ in range(4):
        slices = [reader.next_batch() for reader in readers]
        np.testing.assert_array_equal(np.concatenate(slices), one.next_batch())
        assert max(map(len, slices)) - min(map(len, slices)) <= 1
    weights = [reader.weight for reader in readers]
    assert weights == pytest.approx([len(piece) * ranks / batch for piece in slices])


def test_another_seed_gives_another_order() -> None:
    assert global_batches(50, 10, 1, 0, 5) != global_batches(50, 10, 1, 1, 5)


def test_a_state_over_other_samples_is_refused() -> None:
    state = Reader(50, 10, 0, 0, 1).state()
    with pytest.raises(BadData, match="50 samples with seed 0; this run has 51"):
        Reader(51, 10, 0, 0, 1).restore(state)
