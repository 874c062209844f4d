"""TensorBoard's event file: read back by a parser that shares nothing with the writer, and by TensorBoard's own."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from simdist.trace.event_file import Scalar, crc32c, write_event_file

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
    assert header == {1: struct.pack("<d", 0.0), 3: b"brain.Event:2"}
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


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(32), bytes(range(256))])
def test_checksum_equals_the_bitwise_one(data: bytes) -> None:
    assert crc32c(data) == naive_crc32c(data)


def test_checksum_has_the_published_values() -> None:
    # RFC 3720 (2004), appendix B.4: 32 bytes of zeros, of ones, and rising from 0.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


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
