"""Whether what was saved fits the variable that is to have it: shape, dtype, and of the slots of optimizers which slot it is."""

from __future__ import annotations

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array

__all__ = ["require_fit", "require_same_slot", "slot_in"]

KERAS_SLOTS = (
    *("momentum", "velocity", "velocity_hat", "average", "average_gradient", "norm", "linear"),
    *("accumulator", "accumulated_grad", "accumulated_delta_var", "gradient_accumulator"),
)
"""How Keras' optimizers call what they keep for each variable."""


def require_fit(path: str, found: Array, shape: tuple[int, ...], dtype: str) -> None:
    """Refuse an array of another shape or dtype than the variable that is to have it.

    Raises:
        InvalidArgumentError: it is one.
    """
    if tuple(found.shape) != tuple(shape):
        raise InvalidArgumentError(
            f"{path} has shape {tuple(shape)}, and the checkpoint has one of shape {tuple(found.shape)}: it is of another "
            "model. Make the model as it was when it was saved, or restore another checkpoint."
        )
    if str(found.dtype) != str(dtype):
        raise InvalidArgumentError(
            f"{path} has dtype {dtype}, and the checkpoint has one of {found.dtype}. Make the variable with "
            f"dtype={str(found.dtype)!r}, restore it, and assign it to yours."
        )


def require_same_slot(path: str, found: str, name: str) -> None:
    """Refuse the slot of an optimizer of another kind.

    Args:
        path: of the variable in the checkpoint.
        found: what the variable was called that was saved.
        name: what the one is called that is to have its value.

    Raises:
        InvalidArgumentError: it is one.
    """
    saved, own = slot_in(found), slot_in(name)
    if saved != own and saved and own:
        raise InvalidArgumentError(
            f"{path} is the {own!r} of an optimizer, and the checkpoint has a {saved!r} ({found}): it is of an optimizer of another kind. "
            "Make the optimizer as it was when it was saved, or leave it out."
        )


def slot_in(name: str) -> str:
    """Which slot a variable of a Keras optimizer is, by its name: ``adam/dense_kernel_velocity``; empty where it is none."""
    return max([slot for slot in KERAS_SLOTS if name.endswith(f"_{slot}")], key=len, default="")
