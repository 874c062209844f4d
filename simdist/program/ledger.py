"""What must be computed, written down while the schedule runs ahead, and computed late.

The schedule of a virtual cluster depends on shapes, not on values. So the simulator only notes entries ("kernel k of
these bundles and these rows of a batch gives those bundles") and computes them when somebody looks at a value, or when
the ledger is full.

Invariants:

- An entry that nobody needs is never computed: what a crash discarded costs nothing.
- A look computes what it needs and no more, and changes no bit of what is computed later.
- The three plans (``eager``: at once; ``loop``: one call an entry; ``replay``: one scan for many entries) run the same
  kernels on the same inputs, so their bits agree (class E1).
- With numerics "off" nothing is noted, and asking for a value is an error.

What may live in this file: entries and the choice of a plan. Not: clocks, tasks, strategies.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import jax

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.entry import BatchLike, Entry
from simdist.program.kernels import Kernel
from simdist.program.replay import Machine
from simdist.program.trial import same_bits
from simdist.program.values import Aval, Bundle

__all__ = ["NUMERICS", "Ledger"]

NUMERICS = ("deferred", "eager", "off", "replay", "loop")
# Unevaluated entries before the ledger computes everything that is still reachable, to bound memory.
FULL = 8_192
# A stretch shorter than this is computed call by call: compiling a scan would take longer.
REPLAY_FROM = 2_048
# Entries that are computed both ways, to see whether the bits agree.
TRIAL = 64


class Ledger:
    """Notes what must be computed, and computes it when it is needed.

    Args:
        numerics: "deferred" (late; call by call or by replay, whichever suits the length), "replay" or "loop" (late,
            by that plan alone), "eager" (at once: the reference), or "off" (timing only).

    Raises:
        InvalidArgumentError: an unknown word.
    """

    def __init__(self, numerics: str = "deferred") -> None:
        if numerics not in NUMERICS:
            raise InvalidArgumentError(f"numerics={numerics!r} is not known; use one of {', '.join(map(repr, NUMERICS))}.")
        self.numerics = numerics
        self.pending = 0
        self.computed = 0
        self.roots: list[Callable[[], Iterable[Bundle]]] = []
        self._sequence = 0
        self._machine: Machine | None = None
        self.proved: set[int] = set()  # kernels that have the same bits in a scan
        self.refuted: set[int] = set()  # kernels that have not

    def call(
        self,
        kernel: Kernel,
        inputs: tuple[Bundle, ...],
        splits: tuple[tuple[Aval, ...], ...],
        batch: BatchLike | None = None,
        host: tuple[Any, ...] = (),
        where: str = "",
    ) -> tuple[Bundle, ...]:
        """Note one call of a kernel.

        Args:
            kernel: what to compute.
            inputs: its first inputs, bundle after bundle.
            splits: how its flat outputs are grouped into bundles.
            batch: the inputs after those, if any.
            host: its last inputs: small arrays made on the host (random keys, step arguments).
            where: task, step and time, for error messages.

        Returns:
            One bundle for each of `splits`.
        """
        if self.numerics == "off":
            return tuple(Bundle(avals) for avals in splits)
        self._sequence += 1
        entry = Entry(self._sequence, kernel, inputs, batch, host, where)
        bundles = tuple(Bundle(avals, None, entry) for avals in splits)
        entry.outputs = tuple(weakref.ref(bundle) for bundle in bundles)
        entry.sizes = tuple(len(avals) for avals in splits)
        if self.numerics == "eager":
            self._run_one(entry)
            return bundles
        self.pending += 1
        if self.pending >= FULL:
            self.flush()
        return bundles

    def arrays(self, bundle: Bundle) -> tuple[Any, ...]:
        """The numbers of a bundle, computed now if nobody has asked before.

        Raises:
            FailedPreconditionError: the cluster computes no numbers.
        """
        if bundle.arrays is None:
            if self.numerics == "off":
                raise FailedPreconditionError(
                    'A value was asked for, but this cluster was made with numerics="off" and computes none. '
                    'Use numerics="deferred" to get values; timing is the same.'
                )
            self.evaluate([bundle])
        assert bundle.arrays is not None
        return bundle.arrays

    def flush(self) -> None:
        """Compute everything that the present state of the cluster depends on."""
        self.evaluate([bundle for root in self.roots for bundle in root()])
        self.pending = 0

    def evaluate(self, bundles: Iterable[Bundle]) -> None:
        """Compute these bundles and what they need, in the order in which it was noted."""
        needed = _needed(bundles)
        self.pending = max(0, self.pending - len(needed))
        self.computed += len(needed)
        # A look may happen while somebody else is tracing (Keras builds a model symbolically): the numbers are made outside of it.
        with jax.ensure_compile_time_eval():
            if self.numerics == "replay" or (self.numerics == "deferred" and len(needed) >= REPLAY_FROM):
                self._replay(needed)
            else:
                for entry in needed:
                    self._run_one(entry)

    def _replay(self, needed: list[Entry]) -> None:
        if self._machine is None:
            self._machine = Machine()
        unproved = {id(entry.kernel) for entry in needed} - self.proved
        if unproved - self.refuted:
            # A kernel must show on its first calls that it has the same bits in a scan; if not, it is always called by itself.
            trial, needed = needed[:TRIAL], needed[TRIAL:]
            tried = {id(entry.kernel) for entry in trial}
            verdict = same_bits(self._machine, trial, self._run_one)
            (self.proved if verdict else self.refuted).update(tried)
            if needed:
                self._replay(needed)
            return
        if unproved:
            for entry in needed:
                self._run_one(entry)
            return
        self._machine.run(needed)

    def _run_one(self, entry: Entry) -> None:
        try:
            entry.finish(entry.kernel(*entry.arguments()))
        except Exception as error:
            error.add_note(f"while computing {entry.kernel.name} of {entry.where or 'the cluster'}")
            raise


def _needed(bundles: Iterable[Bundle]) -> list[Entry]:
    stack = [bundle.entry for bundle in bundles if bundle.arrays is None and bundle.entry is not None]
    seen: set[int] = set()
    needed: list[Entry] = []
    while stack:
        entry = stack.pop()
        if entry.sequence in seen:
            continue
        seen.add(entry.sequence)
        needed.append(entry)
        stack.extend(bundle.entry for bundle in entry.inputs if bundle.arrays is None and bundle.entry is not None)
    needed.sort(key=lambda entry: entry.sequence)
    return needed
