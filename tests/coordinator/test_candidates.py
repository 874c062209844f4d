"""Candidates: the lowest rank wins, whoever came first; nobody is forgotten who may still be chosen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.coordinator.candidates import Candidates

STEPS = st.lists(st.tuples(st.integers(0, 5), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5))), max_size=20)


@given(STEPS)
@examples(40)
def test_it_chooses_as_a_look_at_all_of_them_would(steps: list[tuple[int, set[int], set[int]]]) -> None:
    candidates, plain = Candidates(), set[int]()
    for added, gone, waits in steps:
        candidates.add(added, f"{added}")
        plain.add(added)
        found = candidates.first(lambda worker, gone=gone: int(worker) not in gone, lambda worker, waits=waits: int(worker) in waits)
        expected = min((rank for rank in plain - gone if rank not in waits), default=None)
        assert found == (None if expected is None else str(expected))
        # Whom it has met on its way and who is none any more is forgotten; the others are still there.
        plain -= {rank for rank in gone if expected is None or rank < expected}
