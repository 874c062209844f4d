"""The trial of a replay: the same entries call by call and as a scan, and whether the bits agree.

XLA does not promise that a computation has the same last bits inside a scan as on its own. Almost all kernels do (they are
compiled without fused multiply-add); a few reductions are vectorised in another order. So each kernel is tried before it
is replayed, and the equality of the plans (class E1) does not rest on hope.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from simdist.program.entry import Entry
from simdist.program.values import Bundle

__all__ = ["same_bits"]


def same_bits(machine: Any, entries: Sequence[Entry], run_one: Callable[[Entry], None]) -> bool:
    """Run entries call by call; say whether the machine gives the same bits for copies of them.

    Args:
        machine: the replay machine.
        entries: what to compute; afterwards it is computed.
        run_one: computes one entry by itself.
    """
    copies, originals, copied = _copies(entries)
    for entry in entries:
        run_one(entry)
    machine.run(copies)
    return all(_equal(a, b) for a, b in zip(originals, copied, strict=True))


def _copies(entries: Sequence[Entry]) -> tuple[list[Entry], list[Bundle], list[Bundle]]:
    """Entries like these between bundles of their own, with the outputs of both."""
    twin: dict[int, Bundle] = {}
    copies: list[Entry] = []
    originals: list[Bundle] = []
    copied: list[Bundle] = []
    for entry in entries:
        inputs = tuple(twin.get(id(bundle), bundle) for bundle in entry.inputs)
        copy = Entry(entry.sequence, entry.kernel, inputs, entry.batch, entry.host, entry.where)
        copy.sizes = entry.sizes
        made: list[Bundle] = []
        for reference in entry.outputs:
            original = reference()
            bundle = Bundle(original.avals if original is not None else (), None, copy)
            made.append(bundle)
            if original is not None:
                twin[id(original)] = bundle
                originals.append(original)
                copied.append(bundle)
        copy.outputs = tuple(weakref.ref(bundle) for bundle in made)
        copies.append(copy)
    return copies, originals, copied


def _equal(first: Bundle, second: Bundle) -> bool:
    assert first.arrays is not None and second.arrays is not None
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in zip(first.arrays, second.arrays, strict=True))
