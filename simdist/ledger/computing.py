"""When pending entries are computed, and which: for a read, because the ledger is full, or beside the schedule.

Invariants:

- One computation at a time: a caller that asks for a value meanwhile gets an error that says so.
- A Ctrl-C waits until what has been computed counts.
- A call that is noted gives its outputs, whatever happens to what is computed to make room for it; the next read raises that again.

What may live in this file: what to compute, and when. Not: how (plans.py), nor the order of the queue (pending.py).
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import jax.core

from simdist.errors import FailedPreconditionError
from simdist.interrupts import delayed_interrupts
from simdist.ledger.pending import Pending
from simdist.ledger.plans import REPLAY_FROM, ComputePlans
from simdist.ledger.registers import RegisterFile
from simdist.ledger.slicing import everything_before, needed_for, without_dead

__all__ = ["Computing"]

# Bytes that long calls read before they are begun beside the schedule: to begin them costs some tens of microseconds.
BEGIN_BYTES = 1 << 22
# Pending entries, and bytes that the host has passed with them, at which a ledger is full.
FULL = 8_192
FULL_BYTES = 1 << 28
# A read passes through all pending entries, to find those that it needs and to put them before the others: some microseconds for each.
# When reads have passed through each so often, all are computed, one call after the other; a call takes as long. Of so many entries that
# a scan is compiled for them, which takes half a second, when reads have passed through so many.
MOST_PASSES = 16
MOST_PASSED = 1 << 16


class Computing:
    """Computes the entries of a ledger's queue when their time has come.

    Args:
        pending: the queue.
        plans: compute its first entries.
        files: the ledger's, which grow.
        unread: numbers of calls, once for each of their results that no bundle holds any more.

    Attributes:
        fed_bytes: what the host has passed with pending entries.
    """

    def __init__(self, pending: Pending, plans: ComputePlans, files: Sequence[RegisterFile], unread: list[int]) -> None:
        self.pending = pending
        self.plans = plans
        self.files = files
        self.unread = unread
        self.fed_bytes = 0
        self._seen = 0  # calls that `begin` knows
        self._long_bytes = 0  # what long calls read that were noted since it computed
        self._full_again_at = 0  # the call from which on a full ledger is computed
        self._goes_on = False
        self._passed = 0  # entries through which reads have passed since the queue was empty

    def of_registers(self, registers: list[int]) -> None:
        """Compute what these registers will hold, unless they hold it already.

        Raises:
            FailedPreconditionError: called by what is being computed.
        """
        pending = self.pending
        needed = needed_for(pending.entries, registers)
        self._passed += len(needed)
        if self._passed > (MOST_PASSED if len(needed) >= REPLAY_FROM else MOST_PASSES * len(needed)) and not self._goes_on:
            self._passed = 0
            with suppress(Exception):  # of an entry that others need, it is raised again by a read of theirs
                self.flush()
            needed = needed_for(pending.entries, registers)
        if pending.flight is None and not any(needed):
            return
        with self._alone():
            if pending.flight is not None:
                self.plans.land()
                needed = needed_for(pending.entries, registers)  # of a scan that has failed, the entries stand in the queue again
            self.plans.add_sums(needed)
            if pending.has_tables:
                needed = everything_before(needed)  # what still reads a table is computed before the table changes
            self._compute(pending.bring_forward(needed))

    def flush(self, at_once: bool = True) -> None:
        """Compute everything that can still be reached.

        Args:
            at_once: whether a Ctrl-C that other code takes note of may not put off the rest.

        Raises:
            FailedPreconditionError: called by what is being computed.
        """
        with self._alone():
            self.plans.land()
            entries, unread = self.pending.entries, Counter(self.unread)
            if any(unread[entry[0]] == len(entry[3]) for entry in entries):
                entries[:] = without_dead(entries, self._held())
            # A version of a table that the last entry changes is replaced when its caller has got the next one.
            self._compute(len(entries) - (not at_once and self.pending.has_tables), at_once)

    def begin(self, noted: int) -> None:
        """Begin to compute what can still be reached, where enough long calls have been noted, and let the schedule go on meanwhile.

        What is better computed in a long scan, or in a large batch, waits.

        Args:
            noted: how many calls have been noted so far.
        """
        new, self._seen = noted - self._seen, noted
        self._long_bytes += self.plans.long_bytes(self.pending.entries[-new:]) if new else 0
        if self._long_bytes >= BEGIN_BYTES and self._may_make_room(noted):
            self._long_bytes = 0
            self._make_room(noted)

    def make_room_if_full(self, noted: int) -> None:
        """Compute a full queue, unless that has just failed.

        Args:
            noted: how many calls have been noted so far.
        """
        if (len(self.pending.entries) >= FULL or self.fed_bytes >= FULL_BYTES) and self._may_make_room(noted):
            self._make_room(noted)

    def _make_room(self, noted: int) -> None:
        """Flush. A caller that notes a call has to get its outputs: an error here is raised again by the next read."""
        try:
            self.flush(at_once=False)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        except Exception:
            self._full_again_at = noted + FULL

    def _may_make_room(self, noted: int) -> bool:
        return noted >= self._full_again_at and not self._goes_on

    def _held(self) -> Iterable[int]:
        """The registers whose numbers some bundle may ask for."""
        moved = self.pending.moved  # read by entries alone
        for file in self.files:
            free = moved.union(file.free)
            yield from (register for register in file.given if register not in free)

    def _compute(self, count: int, at_once: bool = True) -> None:
        """Compute the first entries; a Ctrl-C waits until what has been computed counts."""
        pending, noted = self.pending, False
        end = pending.computed + count
        while pending.computed < end and (at_once or not noted):
            # A read may happen during another trace (Keras builds a model symbolically): the numbers are computed outside of it.
            with delayed_interrupts() as interrupts, jax.core.eval_context():
                self.plans.run(end - pending.computed, interrupts, wait=at_once)
                noted = bool(interrupts)
        if not pending.entries:
            self._passed = 0
            self.unread.clear()
            self.fed_bytes = 0
            if not pending.flight:
                pending.forget()
                for file in self.files:
                    file.prune()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._goes_on:
            raise FailedPreconditionError(
                "A value was asked for while numbers are being computed: by a callback of a kernel, a handler of a signal, or another "
                "thread. Look at it before or afterwards, or pass it to the function as an argument."
            )
        self._goes_on = True
        try:
            yield
        finally:
            self._goes_on = False
