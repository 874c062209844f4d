"""Kernels that replicas share when they are linked, and those that they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist.program.values import Aval
from simdist.runtime import linking_kernels
from simdist.runtime.linking_kernels import KnownKernels, as_they_are
from simdist.variables.shard_range import ShardRange

ONE = Aval((2, 2), "float32")
A, B = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6], [7, 8]])


@pytest.mark.parametrize("optimizer", [optax.sgd(0.5), optax.adam(0.1)])
def test_no_more_kernels_are_traced_for_more_replicas(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def traced(replicas: int) -> tuple[int, list[float]]:
        made = []
        monkeypatch.setattr(linking_kernels, "kernel_of", lambda *args: made.append(args) or original(*args))
        strategy = sd.MirroredStrategy(replicas)
        with strategy.scope():
            w, rule = sd.Variable(np.float32([1.0, 2.0])), sd.Optimizer(optimizer)

        def step(x: Any) -> Any:
            loss, gradients = sd.value_and_grad(lambda: (w * x).sum(), [w])()
            rule.apply_gradients(zip(gradients, [w], strict=True))
            return loss

        strategy.run(step, args=(np.float32(3),))
        return len(made), w.numpy().tolist()

    original = linking_kernels.kernel_of
    (few, _), (many, _) = traced(2), traced(9)
    assert 0 < few == many


def test_pieces_in_other_places_along_another_axis_or_cut_otherwise_have_kernels_of_their_own() -> None:
    kernels = KnownKernels()
    upper = ShardRange(axis=0, start=0, stop=1, size=4, number=0, count=2)
    cuts = [
        ([([0, 1], 0)], [(0, None)], np.concatenate([A, B])),
        ([([1, 0], 0)], [(0, None)], np.concatenate([B, A])),
        ([([0, 1], 1)], [(0, None)], np.concatenate([A, B], axis=1)),
        ([([0, 1], 0)], [(0, upper)], A[:1]),
    ]
    made = [kernels.cut("step", as_they_are, inputs, outputs, [ONE, ONE]) for inputs, outputs, _ in cuts]
    again = [kernels.cut("step", as_they_are, inputs, outputs, [ONE, ONE]) for inputs, outputs, _ in cuts]
    assert len(set(made)) == len(cuts)
    assert made == again
    for kernel, (_, _, expected) in zip(made, cuts, strict=True):
        assert np.asarray(kernel(A, B)[0]).tolist() == expected.tolist()


def test_another_computation_of_the_same_pieces_is_another_kernel() -> None:
    kernels, given = KnownKernels(), ([([0], 0)], [(0, None)], [ONE])
    double = kernels.cut("step", lambda x: [2 * x], *given)
    triple = kernels.cut("step", lambda x: [3 * x], *given)
    assert np.asarray(triple(A)[0]).tolist() == (3 * A).tolist()
    assert double is not triple


def test_a_kernel_whose_trace_fails_is_not_kept() -> None:
    def failing() -> Any:
        raise ValueError("once")

    kernels, kernel = KnownKernels(), KnownKernels().cut("step", as_they_are, [([0], 0)], [(0, None)], [ONE])
    with pytest.raises(ValueError, match="once"):
        kernels.get("key", failing)
    assert kernels.get("key", lambda: kernel) is kernel is kernels.get("key", failing)
