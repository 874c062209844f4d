"""The rules of schedules: every algorithm keeps them, and what breaks one is named."""

from __future__ import annotations

from collections import Counter

import pytest

from simdist.collectives import ALGORITHMS, Schedule, Transfer, algorithm, check_schedule
from simdist.collectives.double_tree import parents
from simdist.collectives.folding import power_below
from simdist.errors import InvalidArgumentError, NotFoundError

COUNTS = [*range(1, 10), 16, 33]
EVERY = [(kind, name) for kind, known in ALGORITHMS.items() for name in known]


def schedules(kind: str, name: str) -> list[Schedule]:
    counts = [1, 2, 4, 8, 16, 32] if (kind, name) == ("all_gather", "recursive doubling") else COUNTS
    return [algorithm(kind, name).schedule(n) for n in counts]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_algorithm_keeps_the_rules_and_knows_its_name(kind: str, name: str) -> None:
    for schedule in schedules(kind, name):
        assert check_schedule(schedule) is schedule
        assert (schedule.kind, schedule.algorithm) == (kind, name)
        assert {transfer.step for transfer in schedule.transfers} == set(range(schedule.num_steps))


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_one_rank_has_nothing_to_do(kind: str, name: str) -> None:
    found = algorithm(kind, name)
    assert found.schedule(1).transfers == ()
    assert found.seconds(1, 1e6, 1e-5, 1e9) == 0.0


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_what_is_no_number_of_ranks_is_refused(kind: str, name: str) -> None:
    found = algorithm(kind, name)
    for function in (found.schedule, lambda n: found.seconds(n, 1e6, latency_s=1e-5, bandwidth_bytes_per_s=1e9)):
        for number in (0, -1):
            with pytest.raises(InvalidArgumentError, match=rf"^{kind} by {name}: num_ranks is {number}; expected at least 1"):
                function(number)
        for other in (2.5, "8", None):
            with pytest.raises(TypeError, match=rf"^{kind} by {name}: num_ranks is .* expected an integer"):
                function(other)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("kind", "name"), [pair for pair in EVERY if pair[1] not in ("reduction to one", "hierarchical copy")])
def test_each_port_has_one_message_in_each_direction_and_step(kind: str, name: str) -> None:
    for schedule in schedules(kind, name):
        sent = Counter((transfer.step, transfer.source) for transfer in schedule.transfers)
        received = Counter((transfer.step, transfer.target) for transfer in schedule.transfers)
        assert max([*sent.values(), *received.values()], default=1) == 1


def formula(kind: str, name: str, n: int, size: float) -> float:
    """Bytes on the wire, of all ranks together."""
    power = power_below(n)
    folds = 2 * (n - power) * size
    levels = power.bit_length() - 1
    return {
        ("all_reduce", "ring"): 2 * (n - 1) * size,
        ("all_reduce", "recursive doubling"): folds + power * levels * size,
        ("all_reduce", "rabenseifner"): folds + 2 * (power - 1) * size,
        ("all_reduce", "binomial"): 2 * (n - 1) * size,
        ("all_reduce", "double tree"): 2 * (n - 1) * size,
        ("all_reduce", "hierarchical copy"): 2 * (n - 1) * size,
        ("all_reduce", "reduction to one"): 2 * (n - 1) * size,
        ("reduce", "binomial"): (n - 1) * size,
        ("reduce_scatter", "ring"): (n - 1) * size,
        ("all_gather", "ring"): (n - 1) * size,
        ("all_gather", "recursive doubling"): (n - 1) * size,
        ("all_gather", "bruck"): (n - 1) * size,
        ("broadcast", "binomial"): (n - 1) * size,
        ("all_to_all", "pairwise"): (n - 1) / n * size,
    }[kind, name]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_bytes_sent_equal_the_formula(kind: str, name: str) -> None:
    for schedule in schedules(kind, name):
        expected = formula(kind, name, schedule.num_ranks, 1e6)
        assert schedule.bytes_sent(1e6) == pytest.approx(expected, rel=1e-12)


def test_no_ring_rank_sends_more_than_another() -> None:
    schedule = algorithm("all_reduce", "ring").schedule(9)
    assert set(Counter(transfer.source for transfer in schedule.transfers).values()) == {16}


@pytest.mark.parametrize("n", [2, 4, 5, 8, 13, 64, 65])
def test_double_tree_has_two_binary_trees_and_nobody_has_children_of_both_but_the_roots(n: int) -> None:
    first, second = parents(n)
    for tree in (first, second):
        assert sum(parent < 0 for parent in tree) == 1
        assert max(Counter(parent for parent in tree if parent >= 0).values()) <= 2
        for rank in range(n):
            above = [rank]
            while tree[above[-1]] >= 0:
                above.append(tree[above[-1]])
            assert len(above) == len(set(above)) <= n.bit_length() + 1
    children = Counter(parent for tree in (first, second) for parent in tree if parent >= 0)
    assert max(children.values()) <= 2


def test_double_tree_has_the_edges_that_nccl_draws() -> None:
    first, _ = parents(14)
    assert [first[rank] for rank in (8, 4, 12, 2, 6, 10, 13, 1, 11)] == [0, 8, 8, 4, 4, 12, 12, 2, 10]
    _, mirrored = parents(12)
    assert [mirrored[rank] for rank in (11, 3, 1, 7, 5, 9, 0, 10)] == [-1, 11, 3, 3, 7, 7, 1, 9]
    _, shifted = parents(13)
    assert [shifted[rank] for rank in (1, 9, 5, 0, 11, 10, 12)] == [-1, 1, 9, 9, 0, 11, 11]


@pytest.mark.parametrize(
    ("transfers", "message"),
    [
        ([Transfer(0, 1, 1, (0,), True)], "does not send to itself"),
        ([Transfer(0, 0, 3, (0,), True)], "ranks go from 0 to 2"),
        ([Transfer(0, -1, 1, (0,), True)], "ranks go from 0 to 2"),
        ([Transfer(0, 0, 1, (2,), True)], "some of 0 to 1"),
        ([Transfer(0, 0, 1, (), True)], "some of 0 to 1"),
        ([Transfer(0, 0, 1, (1, 0), True)], "ascending order"),
        ([Transfer(0, 0, 1, (1, 1), True)], "ascending order"),
        ([Transfer(1, 0, 1, (0,), True), Transfer(0, 1, 2, (0,), True)], "after a transfer of step 1"),
        ([Transfer(0, 0, 1, (0,), True), Transfer(0, 2, 1, (0, 1), True)], "receives one of these chunks twice"),
    ],
)
def test_broken_rule_is_named(transfers: list[Transfer], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_schedule(Schedule("all_reduce", "broken", 3, 2, tuple(transfers)))


def test_chunks_of_one_step_may_come_from_different_ranks() -> None:
    check_schedule(Schedule("reduce", "mixed", 3, 2, (Transfer(0, 0, 1, (0,), True), Transfer(0, 2, 1, (1,), True))))


def test_unknown_names_are_answered_with_the_nearest_known_one() -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'all_reduce'"):
        algorithm("allreduce", "ring")
    with pytest.raises(NotFoundError, match="Did you mean 'rabenseifner'"):
        algorithm("all_reduce", "rabenseifer")
    assert algorithm("all-reduce", "double_tree").name == "double tree"


def test_double_tree_without_pieces_is_refused() -> None:
    from simdist.collectives import double_tree

    with pytest.raises(InvalidArgumentError, match="give 1 or more"):
        double_tree(0)
