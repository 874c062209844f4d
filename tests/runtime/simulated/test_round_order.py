"""The order in which a round changes its groups: what it leaves is what its closures would leave one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist import keras
from simdist.runtime.simulated.round_order import in_order

CELLS = 3


@dataclass(frozen=True)
class Update:
    """As `Apply`, of a server that counts in whole numbers: what is done to which cells, with which number."""

    combination: str
    cells: tuple[int, ...]
    group: int = 0

    @property
    def combined_by(self) -> tuple[str, tuple[int, ...]]:
        return self.combination, self.cells


@dataclass(eq=False)
class Kept:
    update: Any
    ticket: int
    number: int


def changed(state: list[int], update: Update, numbers: Sequence[int]) -> list[int]:
    """The cells after one change by several updates."""
    for cell in update.cells:
        if update.combination == "last":
            state[cell] = numbers[-1]
        elif update.combination == "each":
            state[cell] = state[cell] * 3 + numbers[0] if numbers[0] % 2 else state[cell]
        else:
            # A mean over a round depends on the value that it changes, as with weight decay.
            state[cell] = state[cell] + sum(numbers) if update.combination == "sum" else state[cell] * 2 - sum(numbers)
    return state


def one_after_the_other(attempts: Sequence[Sequence[Kept]]) -> list[int]:
    """Each update by itself; averages when the last of those that belong to them comes."""
    means: dict[Any, list[Kept]] = {}
    keys: list[tuple[Any, Kept]] = []
    for updates in attempts:
        counts: dict[Any, int] = {}
        for kept in updates:
            counts[kept.update] = counts.get(kept.update, -1) + 1
            keys.append(((kept.update, counts[kept.update]), kept))
            if kept.update.combination == "mean":
                means.setdefault(keys[-1][0], []).append(kept)
    state = [0] * CELLS
    for key, kept in keys:
        if kept.update.combination != "mean":
            state = changed(state, kept.update, [kept.number])
        elif means[key][-1] is kept:
            state = changed(state, kept.update, [one.number for one in means[key]])
    return state


updates = st.builds(Update, st.sampled_from(["mean", "sum", "last", "each"]), st.sampled_from([(0,), (1,), (0, 1), (1, 2), (2,)]))
programs = st.lists(st.lists(st.tuples(updates, st.integers(1, 9)), max_size=4), max_size=5)


@given(programs)
def test_a_round_leaves_what_its_closures_leave_one_after_the_other(given_to: list[list[tuple[Update, int]]]) -> None:
    attempts = [[Kept(update, ticket, number) for update, number in program] for ticket, program in enumerate(given_to)]
    changes: list[list[Kept]] = in_order(attempts)  # type: ignore[type-var]
    state = [0] * CELLS
    for change in changes:
        assert len({(kept.update.combined_by, kept.update.group) for kept in change}) == 1
        assert [kept.ticket for kept in change] == sorted(kept.ticket for kept in change)
        state = changed(state, change[0].update, [kept.number for kept in change])
    assert state == one_after_the_other(attempts)
    assert sorted(map(id, (kept for change in changes for kept in change))) == sorted(id(kept) for one in attempts for kept in one)


@pytest.mark.parametrize(
    ("program", "sizes"),
    [
        ([("mean", (0, 1))], [4]),
        ([("sum", (2,)), ("mean", (0, 1))], [4, 4]),
        ([("last", (0,)), ("last", (0,))], [4, 4]),
        ([("each", (0,)), ("sum", (1,))], [4, 1, 1, 1, 1]),
        ([("each", (0,)), ("mean", (0,))], [1, 1, 1, 1, 4]),
        ([("last", (0,)), ("sum", (0,))], [1, 1, 1, 4, 1]),
    ],
)
def test_what_all_attempts_do_is_one_change_where_that_has_the_same_effect(
    program: list[tuple[str, tuple[int, ...]]], sizes: list[int]
) -> None:
    attempts = [[Kept(Update(*update), ticket, 1) for update in program] for ticket in range(4)]
    assert sorted(map(len, in_order(attempts))) == sorted(sizes)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [("cac", [110.0, 0.0]), ("ea", [10.0, 0.0]), ("fsf", [100.0, 100.0]), ("sgs", [100.0, 0.0]), ("aca", [100.0, 0.0])],
)
def test_servers_apply_a_round_in_the_order_of_its_closures(steps: str, expected: list[float]) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), mode="sync")
    with strategy.scope():
        v, optimizer = sd.Variable(np.zeros(2, np.float32)), sd.Optimizer(keras.optimizers.SGD(1.0))

    def closure(kind: str, number: float) -> Any:
        row = np.array([number, 0.0], np.float32)

        @sd.function
        def step() -> None:
            if kind == "c":
                v.assign_add(row)
            elif kind in "ae":
                v.assign(row)
                if kind == "e":
                    v.assign(row * 1.5)
            elif kind == "f":
                v.assign(row + row[::-1])
            elif kind == "g":
                optimizer.apply_gradients([(np.array([1.0, 0.0], np.float32), v)])
            else:
                v.scatter_update([0], [number])

        return step

    coordinator = sd.ClusterCoordinator(strategy)
    for number, kind in enumerate(steps):
        coordinator.schedule(closure(kind, 10.0**number))
    coordinator.join()
    assert v.numpy().tolist() == expected
