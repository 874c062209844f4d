"""Hardware as plain data is read back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist import errors, hardware
from simdist.hardware.plain import hardware_from_plain, plain_hardware

figures = st.floats(1e-9, 1e15)
jitters = st.one_of(
    st.builds(hardware.NoJitter),
    st.builds(hardware.LogNormal, st.floats(0.01, 2.0)),
    st.builds(hardware.Uniform, st.floats(0.1, 1.0), st.floats(1.0, 3.0)),
    st.builds(hardware.TwoPoint, st.just(1.0), st.floats(1.5, 9.0), probability=st.floats(0.01, 0.9)),
)
devices = st.builds(hardware.Device, flops=figures, memory_bandwidth=figures, jitter=jitters, name=st.text(min_size=1, max_size=9))
topologies = st.one_of(
    st.builds(hardware.FlatSwitch),
    st.builds(hardware.Racks, st.integers(1, 64), st.floats(1.0, 8.0)),
    st.builds(hardware.Torus, st.tuples(st.integers(1, 4), st.integers(1, 4))),
)
networks = st.builds(hardware.Network, bandwidth=figures, latency=st.floats(0.0, 1.0), topology=topologies).flatmap(
    lambda network: st.sampled_from([network, network.with_port("worker:0", bandwidth=1e6), network.with_port("ps:1", latency=0.5)])
)


@given(st.one_of(devices, networks))
def test_what_is_read_back_equals_what_was_written(value: Any) -> None:
    assert hardware_from_plain(json.loads(json.dumps(plain_hardware(value)))) == value


@pytest.mark.parametrize(
    "preset", [value for name in hardware.__all__ if isinstance(value := getattr(hardware, name), (hardware.Device, hardware.Network))]
)
def test_machines_that_exist_are_read_back(preset: Any) -> None:
    assert hardware_from_plain(json.loads(json.dumps(plain_hardware(preset)))) == preset


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"is": "Popen"}, "no hardware that is known"),
        ({"flops": 1.0}, "no hardware that is known"),
        ({"is": ["Device"]}, "no hardware that is known"),
        ({"is": "Device", "flop": 1.0}, "Did you mean 'flops'"),
        ({"is": "Device", "flops": "fast"}, "no Device"),
        ({"is": "Device", "flops": -1.0}, "flops"),
        ({"is": "TwoPoint"}, "no TwoPoint"),
    ],
)
def test_other_data_are_refused(plain: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        hardware_from_plain(plain)


class PlainJitter(hardware.Jitter):
    """A user's own, which is no dataclass."""

    mean = 1.0  # type: ignore[assignment]

    def block(self, stream: Any, size: int) -> Any:
        return stream.random(size)


def test_a_jitter_of_a_users_own_has_no_text() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"PlainJitter.* has no text: its class is not one of simdist\.hardware"):
        plain_hardware(hardware.Device(jitter=PlainJitter()))
