"""What was saved must fit the variable that is to have it."""

from __future__ import annotations

import numpy as np
import pytest

from simdist.checkpoint.fitting import require_fit, require_same_slot, slot_in
from simdist.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        ("adam/dense_kernel_velocity", "velocity"),
        ("adam/dense_kernel_velocity_hat", "velocity_hat"),
        ("rmsprop/kernel_average_gradient", "average_gradient"),
        ("adagrad/velocity_accumulator", "accumulator"),
        ("adam/learning_rate", ""),
        ("velocity", ""),
    ],
)
def test_the_slot_of_a_name_is_its_longest_ending(name: str, slot: str) -> None:
    assert slot_in(name) == slot


def test_what_has_shape_and_dtype_fits() -> None:
    require_fit("w", np.zeros((2, 3), np.float32), (2, 3), "float32")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (np.zeros((3, 2), np.float32), r"w has shape \(2, 3\), and the checkpoint has one of shape \(3, 2\)"),
        (np.zeros((2, 3), np.float16), r"w has dtype float32, and the checkpoint has one of float16\. Make the variable with"),
    ],
)
def test_what_has_another_shape_or_dtype_is_refused(found: np.ndarray, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        require_fit("w", found, (2, 3), "float32")


@pytest.mark.parametrize("saved", ["sgd/kernel_momentum", "kernel", ""])
def test_a_slot_takes_one_of_its_kind_and_what_is_none(saved: str) -> None:
    require_same_slot("o/1", saved, "sgd/bias_momentum")


def test_a_slot_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"o/1 is the 'velocity' of an optimizer, and the checkpoint has a 'momentum'"):
        require_same_slot("o/1", "sgd/kernel_momentum", "adam/kernel_velocity")
