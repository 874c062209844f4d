"""Mapped kernels: one kernel that runs another for each lane, and gives the results as stacks.

A loop over the lanes is compiled once, whatever their number. In the loop the kernel is compiled apart
(`simdist.program.apart`), so that it has the bits of a single call. XLA does not promise them, so each kernel is tried with random
inputs, once in a process; one that has other bits is not mapped. A kernel that calls back into Python, or whose loops depend on its
numbers, is not tried and not mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import pairwise

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.caches import shared
from simdist.program.apart import looped
from simdist.program.jaxprs import primitives_in
from simdist.program.kernels import KEPT_KERNELS, Kernel, kernel_of
from simdist.program.values import Aval, BundleType, stacked_type

__all__ = ["Form", "batched_kernel", "mapped_kernel"]


TRIED_CALLS = 64
"""Random calls by which a kernel is tried, at least."""


class Form(Enum):
    """How the lanes read an input."""

    SHARED = "shared"  # all the same
    STACKED = "stacked"  # the lanes of one stack
    SEPARATE = "separate"  # each a bundle of its own


OneLane = Callable[[Sequence[jax.Array]], tuple[jax.Array, ...]]
Run = Callable[[OneLane, tuple[jax.Array, ...]], Sequence[jax.Array]]
_mapped = shared("kernels of all replicas", KEPT_KERNELS)
_batched = shared("batched kernels of all replicas", KEPT_KERNELS)


def mapped_kernel(
    kernel: Kernel, reads: Sequence[BundleType], forms: tuple[Form, ...], lanes: int, fed_once: frozenset[int] = frozenset()
) -> Kernel | None:
    """The kernel that does for all lanes what `kernel` does for one.

    Args:
        kernel: of one lane.
        reads: the types of the bundles that are its first inputs; the other inputs are fed to it.
        forms: how the lanes read each of them.
        lanes: how many there are.
        fed_once: of the other inputs those that are the same for all lanes, by their places among all inputs.

    Returns:
        A kernel of the shared bundles, stacks and separate bundles in the order of `reads`, and of the other inputs, as stacks unless they
        are fed once; None where its bits would differ from those of single calls.
    """
    key = (kernel, tuple(reads), forms, lanes, fed_once)
    found: list[Kernel | None] = _mapped.get(key, lambda: [_tried(kernel, reads, forms, lanes, fed_once)])
    return found[0]


def batched_kernel(
    kernel: Kernel, reads: Sequence[BundleType], forms: tuple[Form, ...], lanes: int, fed_once: frozenset[int] = frozenset()
) -> Kernel | None:
    """As `mapped_kernel`, with all lanes in one batch: the numbers are close to those of single calls, and not the same (class E2).

    Returns:
        The kernel; None where the function calls back into Python, or has loops that depend on its numbers.
    """

    def make() -> list[Kernel | None]:
        return [_kernel(kernel, reads, forms, lanes, fed_once, _in_a_batch) if _can_be_tried(kernel) else None]

    found: list[Kernel | None] = _batched.get((kernel, tuple(reads), forms, lanes, fed_once), make)
    return found[0]


def _tried(kernel: Kernel, reads: Sequence[BundleType], forms: tuple[Form, ...], lanes: int, fed_once: frozenset[int]) -> Kernel | None:
    """The loop, if it keeps the bits."""
    if not _can_be_tried(kernel):
        return None
    with jax.core.eval_context(), suppress(Exception):  # a kernel that fails is called by itself, and says so there
        rng = np.random.default_rng(0)
        mapped = _kernel(kernel, reads, forms, lanes, fed_once, _in_a_loop)
        # Two orders of addition often agree in one sum, and hardly ever in many.
        for _ in range(max(2, -(-TRIED_CALLS // lanes))):
            samples = _samples(rng, kernel, reads, forms, lanes, fed_once)
            if not _equal(mapped(*_together(samples, reads, forms, fed_once)), [kernel(*sample) for sample in samples]):
                return None
        return mapped
    return None


def _equal(stacks: Sequence[jax.Array], single: Sequence[Sequence[jax.Array]]) -> bool:
    """Whether stacked results have the bits of single ones."""
    columns = zip(*single, strict=True)
    return all(
        np.asarray(stack).tobytes() == np.stack(list(map(np.asarray, column))).tobytes()
        for stack, column in zip(stacks, columns, strict=True)
    )


def _can_be_tried(kernel: Kernel) -> bool:
    """Whether random inputs can do no harm: no code of users is called, and no loop runs for as long as its numbers say."""
    names = set(primitives_in(kernel.closed.jaxpr))
    return not kernel.closed.effects and not kernel.calls_back and "while" not in names and not any("debug" in name for name in names)


def _kernel(kernel: Kernel, reads: Sequence[BundleType], forms: Sequence[Form], lanes: int, fed_once: frozenset[int], run: Run) -> Kernel:
    bundles: list[Aval] = []
    for avals, form in zip(reads, forms, strict=True):
        bundles += {Form.SHARED: avals, Form.STACKED: stacked_type(avals, lanes), Form.SEPARATE: avals * lanes}[form]
    fed = [
        aval if place in fed_once else stacked_type([aval], lanes)[0]
        for place, aval in enumerate(kernel.in_avals)
        if place >= sum(map(len, reads))
    ]
    function = partial(_run_lanes, kernel, tuple(reads), tuple(forms), lanes, fed_once, run)
    return kernel_of(f"{kernel.name} of {lanes} replicas", function, [*bundles, *fed])


def _run_lanes(
    kernel: Kernel,
    reads: Sequence[BundleType],
    forms: Sequence[Form],
    lanes: int,
    fed_once: frozenset[int],
    run: Run,
    *arrays: jax.Array,
) -> Sequence[jax.Array]:
    """The kernel for each lane, by `run`."""
    left = list(arrays)
    shared_inputs: dict[int, jax.Array] = {}
    stacks: dict[int, jax.Array] = {}
    position = 0
    for avals, form in zip(reads, forms, strict=True):
        width = len(avals)
        taken, left = (left[: width * lanes], left[width * lanes :]) if form is Form.SEPARATE else (left[:width], left[width:])
        for number in range(width):
            if form is Form.SHARED:
                shared_inputs[position] = taken[number]
            else:
                stacks[position] = jnp.stack(taken[number::width]) if form is Form.SEPARATE else taken[number]
            position += 1
    for place, array in enumerate(left, start=position):
        (shared_inputs if place in fed_once else stacks)[place] = array
    order = sorted(stacks)

    def lane(given_to_it: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        given = {**shared_inputs, **dict(zip(order, given_to_it, strict=True))}
        return tuple(kernel.apart(*[given[number] for number in range(len(kernel.in_avals))]))

    return run(lane, tuple([stacks[number] for number in order]))


def _in_a_loop(lane: OneLane, stacks: tuple[jax.Array, ...]) -> Sequence[jax.Array]:
    return looped(lane, stacks)


def _in_a_batch(lane: OneLane, stacks: tuple[jax.Array, ...]) -> Sequence[jax.Array]:
    return jax.vmap(lane)(stacks)


def _samples(
    rng: np.random.Generator,
    kernel: Kernel,
    reads: Sequence[BundleType],
    forms: Sequence[Form],
    lanes: int,
    fed_once: frozenset[int],
) -> list[list[np.ndarray]]:
    """Random inputs for each lane; what is shared is the same object."""
    edges = [0, *np.cumsum([len(avals) for avals in reads]).tolist()]
    is_shared = [place in fed_once for place in range(len(kernel.in_avals))]
    for (first, last), form in zip(pairwise(edges), forms, strict=True):
        is_shared[first:last] = [form is Form.SHARED] * (last - first)
    common = [_sample(rng, aval) for aval in kernel.in_avals]
    return [
        [common[place] if is_shared[place] or lane == 0 else _sample(rng, aval) for place, aval in enumerate(kernel.in_avals)]
        for lane in range(lanes)
    ]


def _sample(rng: np.random.Generator, aval: Aval) -> np.ndarray:
    dtype = jnp.dtype(aval.dtype)
    if jnp.issubdtype(dtype, jnp.inexact):
        return rng.standard_normal(aval.shape).astype(dtype)
    return rng.integers(0, 2, aval.shape).astype(dtype)


def _together(
    samples: list[list[np.ndarray]], reads: Sequence[BundleType], forms: Sequence[Form], fed_once: frozenset[int]
) -> list[np.ndarray]:
    """The inputs of the mapped kernel, from those of the lanes."""
    given: list[np.ndarray] = []
    place = 0
    for avals, form in zip(reads, forms, strict=True):
        places = range(place, place + len(avals))
        if form is Form.SHARED:
            given += [samples[0][n] for n in places]
        elif form is Form.STACKED:
            given += [np.stack([sample[n] for sample in samples]) for n in places]
        else:
            given += [sample[n] for sample in samples for n in places]
        place += len(avals)
    fed = range(place, len(samples[0]))
    return given + [samples[0][n] if n in fed_once else np.stack([sample[n] for sample in samples]) for n in fed]
