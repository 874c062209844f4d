"""Calibration with a clock that says what the test wants."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.hardware import NoJitter, calibrate
from simdist.hardware.calibrate import CALLS

SMALL: dict[str, Any] = {"matrix_size": 16, "array_bytes": 4096}


def clock_of(*spans_s: float) -> Callable[[], float]:
    """A clock that is asked at the beginning and the end of each span."""
    moments, now = [0.0], 100.0
    for span in spans_s:
        moments += [now, now + span]
        now += span + 17.0  # between two spans nobody looks
    return iter(moments[1:]).__next__


def test_figures_follow_from_the_spans() -> None:
    start = 0.5
    device = calibrate(clock=clock_of(CALLS * start, 2.5, 4.5), repeats=1, name="fake", **SMALL)
    assert device.launch_overhead == start
    assert device.flops == 2 * 16**3 / (2.5 - start)
    assert device.memory_bandwidth == 2 * 4096 / (4.5 - start)
    assert (device.name, device.jitter) == ("fake", NoJitter())
    assert device.memory > 1 << 28


def test_sizes_of_numpy_are_those_of_python() -> None:
    sizes = {"matrix_size": np.int8(16), "array_bytes": np.int16(4096)}
    device = calibrate(clock=clock_of(CALLS * 0.5, 2.5, 4.5), repeats=np.int8(1), **sizes)
    assert device.flops == 2 * 16**3 / 2.0 and device.memory_bandwidth == 2 * 4096 / 4.0


def test_device_predicts_what_was_measured() -> None:
    device = calibrate(clock=clock_of(CALLS * 0.25, 2.25, 8.25), repeats=1, **SMALL)
    assert device.seconds(flops=2 * 16**3, bytes=0) == 2.25
    assert device.seconds(flops=0, bytes=2 * 4096) == 8.25


def test_fastest_try_counts() -> None:
    tries = [(3.0, 1.0, 2.0), (9.0, 8.0, 5.0), (6.0, 11.0, 7.0)]
    disturbed = calibrate(clock=clock_of(*chain(*tries)), repeats=3, **SMALL)
    assert disturbed == calibrate(clock=clock_of(*(min(spans) for spans in tries)), repeats=1, **SMALL)


@pytest.mark.parametrize("spans_s", [(0.0, 1.0, 1.0), (CALLS, 0.5, 2.0), (CALLS, 2.0, 1.0)])
def test_work_that_the_clock_cannot_tell_is_refused(spans_s: tuple[float, ...]) -> None:
    with pytest.raises(FailedPreconditionError, match="Give a larger matrix_size= and array_bytes="):
        calibrate(clock=clock_of(*spans_s), repeats=1, **SMALL)


@pytest.mark.parametrize("argument", ["repeats", "matrix_size", "array_bytes"])
@pytest.mark.parametrize(("value", "error"), [(0, InvalidArgumentError), (-1, InvalidArgumentError), (1.5, TypeError), (True, TypeError)])
def test_argument_that_cannot_be_is_named(argument: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"calibrate: {argument}"):
        calibrate(**{argument: value})


def test_real_clock_gives_figures_of_a_real_machine() -> None:
    device = calibrate(repeats=2, matrix_size=512, array_bytes=1 << 24)
    assert 1e8 < device.flops < 1e16
    assert 1e8 < device.memory_bandwidth < 1e14
    assert 1e-8 < device.launch_overhead < 1e-1


@pytest.mark.parametrize("size", ["matrix_size", "array_bytes"])
@pytest.mark.parametrize("value", [2**61, 10**400])
def test_arrays_without_room_are_refused_before_the_clock_is_asked(size: str, value: int) -> None:
    """XLA ends the process for some of them, without an error of Python."""
    with pytest.raises(InvalidArgumentError, match=rf"calibrate\({size}=.* bytes of memory, and there are"):
        calibrate(clock=clock_of(), repeats=1, **{**SMALL, size: value})
