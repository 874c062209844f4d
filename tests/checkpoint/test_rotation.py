"""Which checkpoints stay: the decision alone, for any times of saving."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from simdist.checkpoint.rotation import Entry, Rotation

SAVES = st.lists(st.tuples(st.integers(1, 12), st.floats(0.0, 5e4)), max_size=25)
"""Numbers of checkpoints, of which one may be saved again, and seconds between them."""


@given(SAVES, st.none() | st.integers(1, 5), st.none() | st.floats(0.0, 1e5))
def test_the_newest_stay_and_each_goes_once(saves: list[tuple[int, float]], max_to_keep: int | None, keep_every_s: float | None) -> None:
    rotation, there, now_s, order = Rotation(max_to_keep, keep_every_s), set[str](), 0.0, list[str]()
    for number, after_s in saves:
        now_s += after_s
        name = f"ckpt-{number}"
        there.add(name)
        order = [known for known in order if known != name] + [name]
        gone = rotation.saved(Entry(name, now_s))
        newest = order if max_to_keep is None else order[-max_to_keep:]
        assert name not in gone and len(gone) <= 1 and set(gone) <= there
        there -= set(gone)
        assert set(newest) <= there, "never fewer than max_to_keep of the newest"
        assert rotation.names == newest
        if keep_every_s is None:
            assert there == set(newest)
        elif max_to_keep is not None and keep_every_s == 0.0:
            assert there == set(order), "all stay"


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=40), st.integers(1, 4), st.floats(1.0, 300.0))
def test_those_that_stay_for_ever_are_at_least_so_far_apart(after_s: list[float], max_to_keep: int, keep_every_s: float) -> None:
    rotation, seconds, now_s = Rotation(max_to_keep, keep_every_s), dict[str, float](), 0.0
    there: set[str] = set()
    for number, seconds_more in enumerate(after_s):
        now_s += seconds_more
        name = f"ckpt-{number}"
        seconds[name] = now_s
        there |= {name}
        there -= set(rotation.saved(Entry(name, now_s)))
    kept = sorted(seconds[name] for name in there - set(rotation.names))
    assert all(later - earlier >= keep_every_s for earlier, later in pairwise([0.0, *kept]))
    going = [second for name, second in seconds.items() if name not in rotation.names]
    assert all(any(0 <= second - one < keep_every_s for one in [0.0, *kept]) or second in kept for second in going), "none too few"


def test_the_clock_of_another_run_begins_anew() -> None:
    rotation = Rotation(1, 100.0, last_kept_s=5_000.0)
    gone = [rotation.saved(Entry(f"ckpt-{number}", 60.0 * number)) for number in range(1, 6)]
    assert gone == [[], ["ckpt-1"], [], ["ckpt-3"], []]


def test_what_was_found_is_managed() -> None:
    rotation = Rotation(2)
    rotation.recovered([Entry("ckpt-1", 0.0), Entry("ckpt-2", 1.0), Entry("ckpt-3", 2.0)])
    assert rotation.names == ["ckpt-1", "ckpt-2", "ckpt-3"]
    assert rotation.saved(Entry("ckpt-4", 3.0)) == ["ckpt-1", "ckpt-2"]


def test_what_another_run_has_saved_lets_nothing_stay_before_its_time() -> None:
    rotation = Rotation(1, 100.0, last_kept_s=5_000.0, begun_s=5_000.0)
    rotation.recovered([Entry("ckpt-1", 60.0)])
    gone = [rotation.saved(Entry(f"ckpt-{number}", 5_000.0 + 40.0 * number)) for number in range(2, 6)]
    assert gone == [["ckpt-1"], ["ckpt-2"], [], ["ckpt-4"]]
