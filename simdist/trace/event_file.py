"""TensorBoard's event file, as far as scalars need it, written without TensorFlow.

The file is a row of records: the length of the data (eight bytes, little-endian), a checksum of the length, the data, a
checksum of the data. A checksum is CRC-32C, rotated and shifted by a constant ("masked"). The data is one ``Event``
message in the encoding of Protocol Buffers; the first one names the version of the format.

Rules: this file knows bytes and nothing of traces; it reads no clock, and equal scalars give equal bytes.

Source: tensorflow/core/lib/io/record_writer.h (framing), tensorflow/core/util/event.proto and summary.proto (fields);
CRC-32C: Castagnoli, Bräuer and Herrmann, "Optimization of cyclic redundancy-check codes", 1993.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from simdist.trace.atomic_file import replacing

__all__ = ["Scalar", "crc32c", "write_event_file"]

VERSION = "brain.Event:2"
POLYNOMIAL = 0x82F63B78  # of Castagnoli, bits reversed
MASK_DELTA = 0xA282EAD8

# Types of fields on the wire, and the numbers that event.proto and summary.proto give the fields.
VARINT, EIGHT_BYTES, WITH_LENGTH, FOUR_BYTES = 0, 1, 2, 5
WALL_TIME, STEP, FILE_VERSION, SUMMARY = 1, 2, 3, 5
SUMMARY_VALUE, TAG, SIMPLE_VALUE = 1, 1, 2


@dataclass(frozen=True)
class Scalar:
    """The value of a tag at a step; `wall_time_s` is what TensorBoard takes for the real time."""

    tag: str
    step: int
    wall_time_s: float
    value: float


def write_event_file(path: Path, scalars: Iterable[Scalar]) -> None:
    """Write scalars as a file that TensorBoard reads.

    Args:
        path: the file, which TensorBoard finds if its name contains "tfevents"; an old one is replaced.
        scalars: in the order in which they are to be written.

    Raises:
        ResourceExhaustedError: the disk is full; an old file stays whole.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory, "events.out.tfevents.0.example")
        ...     write_event_file(path, [Scalar("queue", 1, 0.5, 3.0)])
        ...     path.read_bytes()[23:36]
        b'brain.Event:2'
    """
    header = _double(WALL_TIME, 0.0) + _bytes(FILE_VERSION, VERSION.encode())
    with replacing(path) as file:
        file.write(_record(header))
        file.writelines(_record(_event(scalar)) for scalar in scalars)


def crc32c(data: bytes) -> int:
    """The CRC-32C of bytes.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    rest = 0xFFFFFFFF
    for byte in data:
        rest = TABLE[(rest ^ byte) & 0xFF] ^ (rest >> 8)
    return rest ^ 0xFFFFFFFF


def _table() -> list[int]:
    table: list[int] = []
    for rest in range(256):
        for _ in range(8):
            rest = (rest >> 1) ^ (POLYNOMIAL if rest & 1 else 0)
        table.append(rest)
    return table


TABLE = _table()


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + MASK_DELTA) & 0xFFFFFFFF)


def _event(scalar: Scalar) -> bytes:
    value = _bytes(TAG, scalar.tag.encode()) + _key(SIMPLE_VALUE, FOUR_BYTES) + struct.pack("<f", scalar.value)
    step = _key(STEP, VARINT) + _varint(scalar.step)
    return _double(WALL_TIME, scalar.wall_time_s) + step + _bytes(SUMMARY, _bytes(SUMMARY_VALUE, value))


def _double(field: int, number: float) -> bytes:
    return _key(field, EIGHT_BYTES) + struct.pack("<d", number)


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, WITH_LENGTH) + _varint(len(data)) + data


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth bit says that more follow. Numbers from 0 on."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
