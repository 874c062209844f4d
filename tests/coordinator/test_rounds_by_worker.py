"""RoundsByWorker: a mapping like any other, which knows at any moment who is at which round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.coordinator.rounds_by_worker import RoundsByWorker

CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 4)), max_size=30)


@given(CHANGES)
@examples(40)
def test_it_is_a_mapping_that_is_sorted_by_rounds_at_any_moment(changes: list[tuple[str, int | None]]) -> None:
    rounds, plain = RoundsByWorker(), dict[str, int]()
    for worker, number in changes:
        if number is None:
            assert rounds.pop(worker, None) == plain.pop(worker, None)
        else:
            rounds[worker] = plain[worker] = number
        assert dict(rounds) == plain and len(rounds) == len(plain)
        assert rounds.earliest == min(plain.values(), default=None)
        for each in range(5):
            assert set(rounds.at(each)) == {name for name, at in plain.items() if at == each}


def test_workers_of_a_round_are_in_the_order_in_which_they_came_to_it() -> None:
    rounds = RoundsByWorker()
    for worker, number in (("c", 1), ("a", 1), ("b", 0), ("c", 1), ("b", 1)):
        rounds[worker] = number
    assert list(rounds.at(1)) == ["a", "c", "b"]
