"""TensorBoard's event file: read back by a parser that shares nothing with the writer, and by TensorBoard's own."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdist.errors import InvalidArgumentError
from simdist.trace.event_file import EventFile, Histogram, Scalar, write_event_file

SCALARS = [
    Scalar("queue/chief:0", 1, 0.25, 3.5),
    Scalar("queue/chief:0", 200, 0.5, -1.0),
    Scalar("staleness/ps:0/Ä", 2**40, 1e9, 0.125),
]


def naive_crc32c(data: bytes) -> int:
    """Bit by bit, as polynomials over two elements are divided."""
    rest = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            carry = (rest ^ (byte >> bit)) & 1
            rest >>= 1
            if carry:
                rest ^= 0x82F63B78
    return ~rest & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    rotated = (stored - 0xA282EAD8) % 2**32
    return (rotated >> 17 | rotated << 15) % 2**32


def records(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + length]
        assert unmasked(struct.unpack_from("<I", data, at + 8)[0]) == naive_crc32c(data[at : at + 8])
        assert unmasked(struct.unpack_from("<I", data, at + 12 + length)[0]) == naive_crc32c(body)
        found.append(body)
        at += 16 + length
    assert at == len(data)
    return found


def fields(data: bytes) -> dict[int, Any]:
    """The fields of a message by number; none occurs twice in our files."""
    found: dict[int, Any] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number += (byte % 128) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(data):
        field, wire_type = divmod(varint(), 8)
        assert field not in found
        if wire_type == 0:
            found[field] = varint()
        else:
            size = {1: 8, 5: 4}.get(wire_type) or varint()
            found[field] = data[at : at + size]
            at += size
    return found


def read_back(path: Path) -> list[Scalar]:
    header, *events = [fields(record) for record in records(path.read_bytes())]
    assert header == {3: b"brain.Event:2"}  # a field that is 0 is not written
    found: list[Scalar] = []
    for event in events:
        value = fields(fields(event[5])[1])
        (wall_time_s,), (number,) = struct.unpack("<d", event[1]), struct.unpack("<f", value[2])
        found.append(Scalar(value[1].decode(), event[2], wall_time_s, number))
    return found


def test_scalars_come_back_from_an_independent_parser(tmp_path: Path) -> None:
    write_event_file(tmp_path / "tfevents", SCALARS)
    assert read_back(tmp_path / "tfevents") == SCALARS


def test_file_without_scalars_names_its_version(tmp_path: Path) -> None:
    write_event_file(tmp_path / "tfevents", [])
    assert read_back(tmp_path / "tfevents") == []


def test_damaged_file_is_noticed(tmp_path: Path) -> None:
    write_event_file(tmp_path / "tfevents", SCALARS)
    data = bytearray((tmp_path / "tfevents").read_bytes())
    data[-10] ^= 1
    with pytest.raises(AssertionError):
        records(bytes(data))


def test_tensorboard_reads_the_same_scalars(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write_event_file(tmp_path / "events.out.tfevents.0000000000.simdist", SCALARS)
    reader = accumulator.EventAccumulator(str(tmp_path))
    reader.Reload()
    found = [Scalar(tag, row.step, row.wall_time, row.value) for tag in reader.Tags()["scalars"] for row in reader.Scalars(tag)]
    assert sorted(found, key=lambda row: row.wall_time_s) == sorted(SCALARS, key=lambda row: row.wall_time_s)


def accumulated(directory: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    reader = accumulator.EventAccumulator(str(directory), size_guidance={accumulator.HISTOGRAMS: 0})
    reader.Reload()
    return reader


def test_values_that_are_appended_come_back_in_their_order_also_from_a_second_file(tmp_path: Path) -> None:
    for first in (0, 3):
        file = EventFile(tmp_path / "train")
        for step in range(first, first + 3):
            file.append([Scalar("epoch_loss", step, 0.5 * step, float(step)), Histogram("kernel", step, 0.5 * step, np.arange(4.0))])
        file.append([])
    reader = accumulated(tmp_path / "train")
    assert [(row.step, row.value) for row in reader.Scalars("epoch_loss")] == [(step, float(step)) for step in range(6)]
    assert len(reader.Histograms("kernel")) == 6
    assert len(list((tmp_path / "train").iterdir())) == 2


@pytest.mark.parametrize(
    ("values", "num", "least", "greatest"),
    [(np.array([[1.0, 2.0], [4.0, np.nan]]), 3, 1.0, 4.0), (np.full(5, 2.0), 5, 2.0, 2.0), (np.array([np.inf]), 0, 0.0, 0.0)],
    ids=["several", "all equal", "none that is finite"],
)
def test_histogram_counts_every_finite_number_once(tmp_path: Path, values: np.ndarray, num: int, least: float, greatest: float) -> None:
    EventFile(tmp_path).append([Histogram("kernel", 0, 0.0, values)])
    found = accumulated(tmp_path).Histograms("kernel")[0].histogram_value
    assert (found.num, found.min, found.max, sum(found.bucket)) == (num, least, greatest, num)


def test_equal_values_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        EventFile(tmp_path / name).append(SCALARS)
    first, second = (next((tmp_path / name).iterdir()).read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_directory_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = EventFile(tmp_path / "file" / "train")
    with pytest.raises(InvalidArgumentError, match="below a file"):
        file.append(SCALARS)
