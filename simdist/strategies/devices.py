"""Device names as users write them: "gpu:1", "/GPU:1", "/job:worker/task:0/device:GPU:1", a number of them, or JAX devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from simdist.errors import InvalidArgumentError
from simdist.ledger.sharded import is_jax_device

__all__ = ["device_names", "few_devices", "jax_devices", "require_task"]

NO_DEVICES = "chief", "worker", "ps", "evaluator", "job", "task", "replica"
MOST_DEVICES = 100_000  # of one task; each takes about as much memory as a task


def device_names(devices: int | Sequence[Any] | None, default: str = "cpu:0") -> list[str]:
    """The names of a strategy's devices.

    Args:
        devices: how many (they are called gpu:0, gpu:1, ...), their names, or JAX devices; None: the default.
        default: the name where none is given.

    Returns:
        Names like "gpu:0", each once.

    Raises:
        InvalidArgumentError: an empty list, a device twice, a number below 1 or far too many, or what is no name of a device.

    Example:
        >>> device_names(["/GPU:0", "gpu:1"]), device_names(2), device_names(None)
        (['gpu:0', 'gpu:1'], ['gpu:0', 'gpu:1'], ['cpu:0'])
    """
    if isinstance(devices, bool) or (isinstance(devices, int) and devices < 1):
        raise InvalidArgumentError(f"devices={devices!r} must be 1 or more, or a list of names such as ['gpu:0', 'gpu:1'].")
    if isinstance(devices, int):
        return [f"gpu:{number}" for number in range(few_devices(devices, "devices"))]
    if isinstance(devices, str):
        wanted = f"a number; write devices={devices}" if devices.isdecimal() else f"a list of names; write [{devices!r}]"
        raise InvalidArgumentError(f"devices={devices!r} must be {wanted}.")
    if devices is not None and not isinstance(cast(Any, devices), Sequence):
        raise InvalidArgumentError(f"devices={devices!r} must be a number of devices, or a list of names such as ['gpu:0', 'gpu:1'].")
    given = [default] if devices is None else list(devices)
    if not given:
        raise InvalidArgumentError("devices=[] names no device to compute on. Give at least one, or None for the default.")
    names = [_name(device) for device in given]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"devices={given!r} names {', '.join(twice)} twice; every replica needs a device of its own.")
    return names


def few_devices(count: int, name: str) -> int:
    """A number of devices of one task, each of which takes memory of this machine.

    Raises:
        InvalidArgumentError: there would be no end of them.
    """
    if count > MOST_DEVICES:
        raise InvalidArgumentError(f"{name}={count} is more than {MOST_DEVICES:,}, and each takes memory of this machine. Give fewer.")
    return count


def jax_devices(devices: int | Sequence[Any] | None) -> list[Any]:
    """The JAX devices among a strategy's devices: all of them, or none where they are only names.

    Args:
        devices: as for `device_names`.

    Raises:
        InvalidArgumentError: some are JAX devices and some are names.

    Example:
        >>> jax_devices(["gpu:0", "gpu:1"])
        []
    """
    given = list(devices) if isinstance(devices, Sequence) else []
    real = [device for device in given if is_jax_device(device)]
    if real and len(real) < len(given):
        raise InvalidArgumentError(
            f"devices={given!r} mixes JAX devices, on which replicas really run, with names, which stand for simulated ones. "
            "Give only one kind."
        )
    return real


def require_task(devices: int | Sequence[Any] | None, task: str) -> None:
    """Refuse devices of other tasks than the one that a strategy runs on.

    Args:
        devices: as for `device_names`; names may say a job and a task, and ``localhost`` stands for whichever it is.
        task: where the strategy runs.

    Raises:
        InvalidArgumentError: a device is named that lies elsewhere.

    Example:
        >>> require_task(["/job:worker/task:1/device:GPU:0", "/job:localhost/task:0/gpu:1", "gpu:2"], "worker:1")
    """
    for device in [] if devices is None or isinstance(devices, int) else devices:
        found = re.search(r"/?job:([a-z_]+)(?:/replica:\d+)?/task:(\d+)/", str(device).lower())
        if found and found[1] != "localhost" and f"{found[1]}:{found[2]}" != task:
            raise InvalidArgumentError(
                f"{device!r} is a device of {found[1]}:{found[2]}, and this strategy runs on {task}. Leave job and task out, launch a main "
                "on that task, or use a strategy for several workers."
            )


def _name(device: Any) -> str:
    if is_jax_device(device):
        return f"{device.platform}:{device.id}"
    found = re.fullmatch(r"(?:.*/)?(?:device:)?([a-z]+):(\d+)", str(device).strip().lower())
    if not isinstance(device, str) or found is None:
        raise InvalidArgumentError(f"{device!r} is no name of a device. Write for example 'gpu:0', or give a number of devices.")
    if found[1] in NO_DEVICES:
        raise InvalidArgumentError(
            f"{device!r} names a task, and not a device of it. Write 'cpu:0' for its processor, or for example 'gpu:0'; with the task "
            "'/job:worker/task:0/device:GPU:0'."
        )
    return f"{found[1]}:{found[2]}"
