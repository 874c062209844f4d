"""Amounts of memory on static pictures, in the units of the live views (src/format.ts): powers of 1024, one digit behind the point."""

from __future__ import annotations

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_bytes(size_bytes: float) -> str:
    """An amount of memory.

    Example:
        >>> format_bytes(26214400), format_bytes(100)
        ('25.0 MiB', '100 B')
    """
    for unit in UNITS[:-1]:
        if size_bytes < 1023.95:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} {UNITS[-1]}"


def byte_ticks(greatest: float, most: int = 8) -> tuple[list[int], list[str]]:
    """At most `most` multiples of a power of two on a scale from 0 to `greatest` bytes, with their labels.

    Example:
        >>> byte_ticks(3.4 * 2**20, most=4)
        ([0, 1048576, 2097152, 3145728], ['0 B', '1.0 MiB', '2.0 MiB', '3.0 MiB'])
    """
    step = 1
    while greatest / step >= most:
        step *= 2
    ticks = list(range(0, int(greatest) + 1, step))
    return ticks, [format_bytes(tick) for tick in ticks]
