"""FarmHash64, the stable hash by which words outside of a vocabulary are shared among buckets.

It is the `Fingerprint64` of FarmHash ("farmhashna", Pike and Alakuijala, 2014), which TensorFlow uses for the same purpose, so that a word
has the same bucket there and here, in every process and on every machine.

What may live in this file: hashing of bytes. Python's integers are cut to 64 bits after each step that may exceed them.
"""

from __future__ import annotations

__all__ = ["bucket", "fingerprint64"]

MASK = (1 << 64) - 1
K0 = 0xC3A5C85C97CB3127
K1 = 0xB492B66FBE98F273
K2 = 0x9AE16A3B2F90404F
Pair = tuple[int, int]


def fingerprint64(data: bytes) -> int:
    """64 bits that depend on these bytes and on nothing else.

    Args:
        data: of any length.

    Example:
        >>> fingerprint64(b"hello") == fingerprint64(b"hello"), fingerprint64(b"hello") == fingerprint64(b"hullo")
        (True, False)
    """
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if size <= 64 else _long(data)


def bucket(text: str, num_buckets: int) -> int:
    """The bucket of a word, from 0: the fingerprint of its UTF-8 bytes modulo the number of buckets.

    Example:
        >>> [bucket(word, 2) for word in ("x", "y", "zz", "foo")]
        [0, 1, 0, 1]
    """
    return fingerprint64(text.encode("utf-8", "surrogatepass")) % num_buckets


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotated(value: int, bits: int) -> int:
    value &= MASK
    return (value >> bits | value << (64 - bits)) & MASK


def _mixed(value: int) -> int:
    value &= MASK
    return value ^ value >> 47


def _of_two(u: int, v: int, factor: int) -> int:
    a = _mixed(((u ^ v) & MASK) * factor)
    return _mixed((((v & MASK) ^ a) & MASK) * factor) * factor & MASK


def _up_to_16(data: bytes) -> int:
    size = len(data)
    factor = K2 + size * 2 & MASK
    if size >= 8:
        a, b = _word(data, 0) + K2 & MASK, _word(data, size - 8)
        return _of_two(_rotated(b, 37) * factor + a & MASK, (_rotated(a, 25) + b) * factor & MASK, factor)
    if size >= 4:
        return _of_two(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), factor)
    if not size:
        return K2
    y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
    return _mixed(y * K2 ^ z * K0) * K2 & MASK


def _up_to_32(data: bytes) -> int:
    size = len(data)
    factor = K2 + size * 2 & MASK
    a, b = _word(data, 0) * K1, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * K2
    return _of_two(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + K2, 18) + c, factor)


def _up_to_64(data: bytes) -> int:
    size = len(data)
    factor = K2 + size * 2 & MASK
    a, b = _word(data, 0) * K2, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d & MASK
    z = _of_two(y, a + _rotated(b + K2, 18) + c, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * factor, (z + _word(data, size - 24)) * factor
    return _of_two(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, factor)


def _of_32_bytes(data: bytes, at: int, a: int, b: int) -> Pair:
    """A weak hash of 32 bytes with two seeds."""
    w, x, y, z = (_word(data, at + 8 * part) for part in range(4))
    a = a + w & MASK
    b = _rotated(b + a + z, 21)
    first = a
    a = a + x + y & MASK
    return a + z & MASK, b + _rotated(a, 44) + first & MASK


def _long(data: bytes) -> int:
    seed = 81
    x, y = seed * K2 + _word(data, 0) & MASK, seed * K1 + 113 & MASK
    z = _mixed(y * K2 + 113) * K2 & MASK
    v, w = (0, 0), (0, 0)
    tail = len(data) - 1 & 63
    for at in range(0, (len(data) - 1) // 64 * 64, 64):
        x = _rotated(x + y + v[0] + _word(data, at + 8), 37) * K1 & MASK
        y = _rotated(y + v[1] + _word(data, at + 48), 42) * K1 & MASK
        x, y = x ^ w[1], y + v[0] + _word(data, at + 40) & MASK
        z = _rotated(z + w[0], 33) * K1 & MASK
        v = _of_32_bytes(data, at, v[1] * K1, x + w[0])
        w = _of_32_bytes(data, at + 32, z + w[1], y + _word(data, at + 16))
        z, x = x, z
    return _last_64(data, x, y, z, v, (w[0] + tail & MASK, w[1]))


def _last_64(data: bytes, x: int, y: int, z: int, v: Pair, w: Pair) -> int:
    factor, at = K1 + ((z & 0xFF) << 1) & MASK, len(data) - 64
    v = v[0] + w[0] & MASK, v[1]
    w = w[0] + v[0] & MASK, w[1]
    x = _rotated(x + y + v[0] + _word(data, at + 8), 37) * factor & MASK
    y = _rotated(y + v[1] + _word(data, at + 48), 42) * factor & MASK
    x, y = x ^ w[1] * 9 & MASK, y + v[0] * 9 + _word(data, at + 40) & MASK
    z = _rotated(z + w[0], 33) * factor & MASK
    v = _of_32_bytes(data, at, v[1] * factor, x + w[0])
    w = _of_32_bytes(data, at + 32, z + w[1], y + _word(data, at + 16))
    z, x = x, z
    first = _of_two(v[0], w[0], factor) + _mixed(y) * K0 + z
    return _of_two(first, _of_two(v[1], w[1], factor) + x, factor)
