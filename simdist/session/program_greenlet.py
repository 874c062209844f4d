"""The greenlet of a program: it runs until it gives way to its caller, with process-wide state and output of its own.

Invariant: while it stands still, the process has the caller's state (Keras, JAX, standard output, the switch of `sd.debug`), and Ctrl-C is
Python's.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import greenlet

from simdist import debugging
from simdist.process_state import TaskContext, active
from simdist.session.program_interrupts import ProgramInterrupts

__all__ = ["Ended", "ProgramGreenlet"]

# A program that swallows its end this often is left where it is.
ENDS_BEFORE_LEFT = 100


class Ended(BaseException):
    """Raised in a program whose run is over before it has come to its end."""


class ProgramGreenlet:
    """A program that is run from time to time.

    Args:
        play: all of the program; called in the greenlet.
        context: its process-wide state.

    Attributes:
        real_s: seconds that it has taken so far, of the clock on the wall.
    """

    def __init__(self, play: Callable[[], None], context: TaskContext) -> None:
        self.real_s = 0.0
        self._context = context
        self._stream = io.StringIO()
        self._debugging: list[bool | None] = []  # the position of the switch that the program has turned; empty: that of its caller
        self._num_ends = 0
        self._interrupts = ProgramInterrupts()
        self._greenlet = greenlet.greenlet(play)

    @property
    def is_alive(self) -> bool:
        """Whether the program has begun and has not ended."""
        return bool(self._greenlet)

    @property
    def has_ended(self) -> bool:
        """Whether it has begun and has ended."""
        return self._greenlet.dead

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._stream.getvalue()

    def last_output(self, characters: int) -> str:
        """The end of the output, without a copy of all of it."""
        self._stream.seek(max(0, self._stream.tell() - characters))
        return self._stream.read()

    # -- called by its caller -------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Run the program until it stands still."""
        self._switch(self._greenlet.switch)

    def end(self) -> None:
        """Raise `Ended` in the program, where it stands."""
        self._switch(lambda: self._greenlet.throw(Ended))

    def _switch(self, enter: Callable[[], object]) -> None:
        with self._interrupts.between_states() as put_off:
            self._greenlet.parent = greenlet.getcurrent()
            own, stream, began = active.context, sys.stdout, time.perf_counter()
            sys.stdout = self._stream
            self._context.replace(own)
            try:
                if not put_off:
                    with suppress(greenlet.GreenletExit), self._debugging_of_its_own(), self._interrupts.of_the_program():
                        enter()
            finally:
                self._context = active.context
                own.replace(self._context)
                sys.stdout = stream
                self.real_s += time.perf_counter() - began

    @contextmanager
    def _debugging_of_its_own(self) -> Iterator[None]:
        """Where the program turns the switch of `sd.debug`, its caller finds it as it was, and the program as it left it."""
        outer = debugging.position()
        entered = self._debugging[0] if self._debugging else outer
        debugging.turn(entered)
        try:
            yield
        finally:
            left = debugging.position()
            if left != entered:
                self._debugging = [left]
            debugging.turn(outer)

    # -- called by the program ------------------------------------------------------------------------------------

    def give_way(self) -> None:
        """Stand still, and let the caller go on."""
        assert self._greenlet.parent is not None
        self._greenlet.parent.switch()

    def give_up(self) -> None:
        """Take the program out of its wait for good."""
        self._num_ends += 1
        while self._num_ends > ENDS_BEFORE_LEFT:
            self.give_way()
        raise Ended
