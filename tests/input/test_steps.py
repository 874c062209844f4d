"""One pass over an input, on a toy that counts: seeing steps before they are taken, and where the pass stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simdist.data.positions import Position
from simdist.input.steps import InputIterator, InputStep


class Counted(InputIterator):
    """Steps without parts for 1, 2, ... workers, up to a last one."""

    def __init__(self, last: int, on_restore: Callable[[Position], None] | None = None) -> None:
        super().__init__(on_restore)
        self.last, self.read = last, 0

    def read_step(self) -> InputStep:
        if self.read == self.last:
            raise StopIteration
        self.read += 1
        return InputStep((), ((1,),) * self.read)

    def read_position(self) -> Position:
        return {"read": self.read}

    def move_to(self, position: Position, follows: bool) -> None:
        self.read = position["read"]


def test_rows_of_a_step_are_the_sum_of_its_sizes_or_unknown():
    assert InputStep((), ((2, 1), (0, 4))).num_rows == 7
    assert InputStep((), None).num_rows is None


def test_steps_that_were_peeked_at_are_read_once_and_given_in_order():
    given = Counted(4)
    assert given.peek(2).num_rows == 3 and given.read == 3
    assert [step.num_rows for step in given] == [1, 2, 3, 4] and given.read == 4
    with pytest.raises(StopIteration):
        given.peek()


def test_position_is_that_of_the_next_step_however_far_was_peeked():
    given = Counted(4)
    given.peek(3)
    assert given.state_dict() == {"read": 0}
    given.next_step()
    assert given.state_dict() == {"read": 1}
    with pytest.raises(StopIteration):
        given.peek(3)
    assert given.state_dict() == {"read": 1}


def test_going_to_a_position_forgets_what_was_peeked_at_and_is_reported():
    reached: list[Position] = []
    given = Counted(4, reached.append)
    given.peek(2)
    given.load_state_dict({"read": 2})
    assert reached == [{"read": 2}] and [step.num_rows for step in given] == [3, 4]
