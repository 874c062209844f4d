"""What a dataset says of its elements before it runs."""

from __future__ import annotations

import numpy as np

from simdist.data import Dataset


def test_element_spec_uses_up_no_shuffle():
    looked, plainly = (Dataset.range(9).shuffle(9, seed=1).map(lambda x: x, pure=False) for _ in range(2))
    assert looked.element_spec.dtype == "int32"
    assert list(looked) == list(plainly)


def test_element_spec_knows_which_first_axes_vary():
    rows = Dataset.from_tensor_slices(np.zeros((5, 3)))
    assert rows.batch(2).element_spec.shape == (None, 3)
    assert rows.batch(2, drop_remainder=True).element_spec.shape == (2, 3)
    assert rows.batch(2).map(lambda b: b * 2).element_spec.shape == (None, 3)
    assert [spec.shape for spec in rows.batch(2).enumerate().map(lambda i, b: (i, b)).element_spec] == [(), (None, 3)]
    assert rows.batch(2).batch(2, drop_remainder=True).map(lambda b: b * 2).element_spec.shape == (2, None, 3)
    paired = Dataset.zip((Dataset.range(4), Dataset.range(5).batch(2)))
    assert paired.map(lambda _, b: b).element_spec.shape == (None,)
    # One is as long as a last batch, but not as the others.
    beside = Dataset.range(5).batch(2).map(lambda b: (np.ones(1), b, np.ones(2)))
    assert [spec.shape for spec in beside.element_spec] == [(1,), (None,), (2,)]


def test_element_spec_of_a_scan_knows_which_first_axes_vary():
    scanned = Dataset.range(5).batch(3).scan(0, lambda state, b: (state + 1, (state, b, np.ones(2))))
    assert [spec.shape for spec in scanned.element_spec] == [(), (None,), (2,)]
    full = Dataset.range(6).batch(3, drop_remainder=True).scan(0, lambda state, b: (state, b))
    assert full.element_spec.shape == (3,)


def test_element_spec_of_a_map_knows_what_differs_among_the_first_elements():
    full = Dataset.range(8).batch(4, drop_remainder=True)
    assert full.map(lambda b: b * 2).element_spec.shape == (4,)
    assert full.map(lambda b: b[:2] if b[0] else b).element_spec.shape == (None,)
    assert full.map(lambda b: b[None]).element_spec.shape == (1, 4)
    assert Dataset.range(1, 5).map(lambda n: np.ones((n, 2))).element_spec.shape == (None, 2)


def test_error_of_a_later_element_does_not_keep_element_spec_from_looking_at_the_first():
    batches = Dataset.range(8).batch(2).map(lambda b: b if b[0] < 2 else 1 / 0)
    assert batches.element_spec.shape == (None,)


def test_batches_are_full_as_long_as_a_map_keeps_their_rows():
    full = Dataset.range(8).batch(4, drop_remainder=True)
    for fn, expected in ((lambda b: b * 2, True), (lambda b: (b, b), True), (lambda b: b[:2] if b[0] else b, False)):
        dataset = full.map(fn)
        list(dataset)
        assert dataset.node.full_batches is expected
