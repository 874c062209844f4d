"""Calibration: measure the machine at hand, and get a `Device` that is as fast.

This is the one place in the engine that reads the real clock on purpose: what it measures goes into a frozen
`Device`, and from then on time is virtual again. Two calibrations differ, and so do runs that use them: print the
device, and write its figures into the program, where a run has to be repeated exactly.

Not measured: caches, several programs at once, anything but float32.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from simdist.arguments import float_of, require_function, shown
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.hardware.devices import GIB, Device
from simdist.hardware.figures import check_whole

__all__ = ["calibrate"]

CALLS = 100
FLOAT32_BYTES = 4
UNKNOWN_MEMORY = 16 * GIB  # where neither JAX nor the operating system tells, as on Windows


def calibrate(
    *,
    clock: Callable[[], float] = time.perf_counter,
    repeats: int = 5,
    matrix_size: int = 2048,
    array_bytes: int = 256 << 20,
    name: str = "calibrated",
) -> Device:
    """Measure arithmetic, memory and the start of a program on JAX's default device.

    Arithmetic is a product of two square matrices (2 n^3 operations); memory is adding 1 to a large array in place (each
    byte is read once and written once); the start of a program is a call that does almost nothing. Each is the fastest of
    several tries, after one that compiles; the start of a program is subtracted from the other two.

    Args:
        clock: gives seconds; default the real clock, `time.perf_counter`.
        repeats: tries of each measurement; default 5.
        matrix_size: rows of the matrices, default 2,048: on a large accelerator take 8,192 or more.
        array_bytes: size of the array, default 256 MiB: it has to be larger than all caches.
        name: of the device.

    Returns:
        A `Device` with the measured figures, and the memory that JAX's device (or else this computer) has.

    Raises:
        TypeError: if `repeats` or a size is no whole number.
        InvalidArgumentError: if one of them is less than 1, or needs more memory than there is.
        FailedPreconditionError: if the work was too small to be distinguished from the start of a program.

    Example:
        >>> import simdist as sd
        >>> mine = sd.hardware.calibrate(repeats=1, matrix_size=512, array_bytes=1 << 25)
        >>> with sd.Cluster({"worker": 2}, hardware=mine) as cluster:
        ...     print(cluster.tasks)
        ['chief:0', 'worker:0', 'worker:1']

        In short: ``sd.Cluster({"worker": 2}, hardware=sd.hardware.calibrate())``.
    """
    require_function(clock, "calibrate(clock=)")
    given = (("repeats", repeats), ("matrix_size", matrix_size), ("array_bytes", array_bytes))
    repeats, matrix_size, array_bytes = [check_whole("calibrate", argument, value) for argument, value in given]
    _require_room("matrix_size", matrix_size, 2 * FLOAT32_BYTES * matrix_size**2)
    _require_room("array_bytes", array_bytes, array_bytes)
    start_s = _fastest_s(_starts(), clock, repeats) / CALLS
    product_s = _fastest_s(_product(matrix_size), clock, repeats) - start_s
    length = max(1, array_bytes // FLOAT32_BYTES)
    pass_s = _fastest_s(_pass(length), clock, repeats) - start_s
    if not (start_s > 0 and product_s > 0 and pass_s > 0):
        raise FailedPreconditionError(
            f"The clock cannot tell the work from the start of a program: {start_s:g} s to start, then {product_s:g} s for a product "
            f"of {matrix_size} rows and {pass_s:g} s for {array_bytes} bytes. Give a larger matrix_size= and array_bytes=."
        )
    return Device(
        flops=2 * matrix_size**3 / product_s,
        memory_bandwidth=2 * FLOAT32_BYTES * length / pass_s,
        memory=_memory(),
        launch_overhead=start_s,
        name=name,
    )


def _require_room(argument: str, value: int, needed_bytes: int) -> None:
    """Refuse arrays that do not fit into the memory: some sizes end the process in XLA, without an error of Python."""
    memory = _memory()
    if needed_bytes > memory:
        needed = f"{float_of(needed_bytes):.3g} bytes of memory"
        raise InvalidArgumentError(f"calibrate({argument}={shown(value)}) needs {needed}, and there are {memory:.3g}. Give less.")


def _fastest_s(work: Callable[[], None], clock: Callable[[], float], repeats: int) -> float:
    """The shortest of several tries: whatever disturbs a measurement makes it longer."""
    work()  # compiles
    tries: list[float] = []
    for _ in range(repeats):
        began = clock()
        work()
        tries.append(clock() - began)
    return min(tries)


def _starts() -> Callable[[], None]:
    import jax
    import jax.numpy as jnp

    tiny, one = jax.jit(lambda x: x + 1), jnp.zeros((), jnp.float32)

    def work() -> None:
        for _ in range(CALLS):
            tiny(one).block_until_ready()

    return work


def _product(rows: int) -> Callable[[], None]:
    import jax
    import jax.numpy as jnp

    multiply, matrix = jax.jit(lambda x: x @ x), jnp.full((rows, rows), 1 / rows, jnp.float32)
    return lambda: multiply(matrix).block_until_ready()


def _pass(length: int) -> Callable[[], None]:
    import jax
    import jax.numpy as jnp

    # Donated, so that the result takes the place of the argument: fresh memory would cost page faults.
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    array = [jnp.zeros(length, jnp.float32)]

    def work() -> None:
        array[0] = add(array[0]).block_until_ready()

    return work


def _memory() -> float:
    """Bytes that JAX's device may use; where it does not say, those of this computer."""
    import jax

    statistics: dict[str, Any] = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in statistics:
        return float(statistics["bytes_limit"])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float(UNKNOWN_MEMORY)
