"""Linked programs as bytes: what a task needs of one, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.program.kernels import Kernel
from simdist.program.values import Bundle
from simdist.runtime.linked import ApplyAll, LinkedProgram, RunKernel
from simdist.runtime.linking import link
from simdist.runtime.updating import prepare
from simdist.runtime.wire import decode_kernel, decode_program, encode, encode_kernel, encode_program
from simdist.runtime.wire.kernels import digest_of


@pytest.fixture(scope="module")
def linked() -> LinkedProgram:
    """A step with a batch, an argument, a key, a constant, an optimizer, a check and a collective."""
    strategy = sd.MirroredStrategy(2)
    constant = np.float32([3, 1])
    with strategy.scope():
        weights = sd.Variable(np.float32([1, 2]), name="weights")
        optimizer = sd.Optimizer(optax.adam(0.1))

    def replica(x: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        loss, gradients = sd.value_and_grad(lambda: ((weights.value * x - constant) ** 2).sum(), [weights])()
        optimizer.apply_gradients(zip(gradients, [weights], strict=True))
        return context.all_reduce("sum", sd.check_numerics(loss, "the loss")), constant

    @sd.function
    def step(batches: Any, x: Any) -> Any:
        return strategy.run(replica, args=(next(batches) + x,))

    call = step.bind((iter(sd.Dataset.from_tensor_slices(np.ones((4, 2), np.float32)).batch(2)), np.float32(1)), {})
    program = step.trace(call, 0, 2)
    prepare(program, strategy.store.layout)
    return link(program, strategy.store.layout)


def kernels_of(linked: LinkedProgram) -> list[Kernel]:
    runs = [op.kernel for op in linked.operations if isinstance(op, RunKernel)]
    return [*runs, *(part.kernel for op in linked.operations if isinstance(op, ApplyAll) for part in op.parts)]


def digest(kernel: Kernel) -> str:
    return digest_of(encode_kernel(kernel))


# How a collective is carried out, accounts of what travels, and what makes updates of rounds one, are the driver's.
STAYS = ("options", "cells", "of_rule")


def facts(value: Any) -> Any:
    """An operation in plain values: kernels by their digests, and of a collective what travels of it."""
    if isinstance(value, Kernel):
        return digests.get(value) or digest(value)
    if isinstance(value, tuple):
        return tuple(map(facts, value))
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, *(facts(getattr(value, name)) for name in value.__dataclass_fields__ if name not in STAYS)
    return value


digests: dict[Kernel, str] = {}


def test_a_program_comes_back_operation_by_operation(linked: LinkedProgram) -> None:
    kernels = {digest(kernel): decode_kernel(encode_kernel(kernel)) for kernel in kernels_of(linked)}
    digests.update({kernel: name for name, kernel in kernels.items()})
    found = decode_program(encode_program(linked, digest), kernels)
    assert [type(op).__name__ for op in linked.operations] == [type(op).__name__ for op in found.operations]
    assert list(map(facts, linked.operations)) == list(map(facts, found.operations))
    assert (found.name, found.slots, found.result) == ("step", linked.slots, linked.result)
    for (slot, one), (other_slot, other) in zip(linked.constants, found.constants, strict=True):
        assert (slot, one.avals) == (other_slot, other.avals)
        assert arrays(one) == arrays(other)
    assert linked.constants


def arrays(bundle: Bundle) -> list[bytes]:
    assert bundle.arrays is not None
    return [np.asarray(array).tobytes() for array in bundle.arrays]


def test_equal_programs_are_equal_bytes(linked: LinkedProgram) -> None:
    assert encode_program(linked, digest) == encode_program(linked, digest)


def test_a_program_whose_kernel_has_not_come_is_refused(linked: LinkedProgram) -> None:
    with pytest.raises(InvalidArgumentError, match=r"was to be a program, but cannot be one: KeyError"):
        decode_program(encode_program(linked, digest), {})


@pytest.mark.parametrize(
    "content",
    [
        ("kernel", "x", b""),
        ("program", "x", (("fly", 1),), (), -1, ()),
        ("program", "x", (("batch", 0),), (), -1, ()),
        ("program", "x", (("collective", "all_reduce", 2, "", False, 7, 8),), (), -1, ()),
        ("program", "x", (), ((3, ()),), -1, ()),
        7,
    ],
    ids=["kernel", "operation", "field", "slot", "constant", "number"],
)
def test_a_message_that_is_no_program_is_refused(content: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="was to be a program"):
        decode_program(encode(content), {})
