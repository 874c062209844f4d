"""The shapes of marks, so that no instant is known by its colour alone; every picture draws them from this table.

A shape is path data in a box from -7 to 7, with y pointing down: `body` is filled with the category's colour, `sign` is
stroked in white on it. Only the absolute commands M, L, C and Z are used: a browser reads them as they are, and
`commands_of` reads them for matplotlib.

Bodies group the categories: an octagon is a task that is hit, a square a host that is lost, a diamond the network
between two tasks, a drum a disk, a triangle an error of the program, a circle what the cluster does about it.

Taught in lesson 01.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import cos, pi, sin, tan

__all__ = ["GLYPHS", "OTHER_GLYPH", "RADIUS", "Glyph", "commands_of"]

RADIUS = 7.0  # of a body, in the units of the path data; one unit is one CSS pixel at full size


@dataclass(frozen=True)
class Glyph:
    """The shape of a category of instants: path data of its filled body and of the white sign on it."""

    body: str
    sign: str


def _arc(radius: float, first_degrees: float, last_degrees: float) -> str:
    """Path data of an arc around (0, 0), as cubic curves of at most a quarter each; degrees turn clockwise on a screen."""
    turn = (last_degrees - first_degrees) * pi / 180
    pieces = max(1, round(abs(turn) / (pi / 2) + 0.499))
    step, handle = turn / pieces, radius * 4 / 3 * tan(turn / pieces / 4)
    angle = first_degrees * pi / 180
    text = f"M{_point(radius * cos(angle), radius * sin(angle))}"
    for _ in range(pieces):
        after = angle + step
        first = _point(radius * cos(angle) - handle * sin(angle), radius * sin(angle) + handle * cos(angle))
        second = _point(radius * cos(after) + handle * sin(after), radius * sin(after) - handle * cos(after))
        text += f"C{first} {second} {_point(radius * cos(after), radius * sin(after))}"
        angle = after
    return text


def _point(x: float, y: float) -> str:
    return f"{round(x, 2) + 0.0:g} {round(y, 2) + 0.0:g}"


OCTAGON = "M-2.9 -7L2.9 -7L7 -2.9L7 2.9L2.9 7L-2.9 7L-7 2.9L-7 -2.9Z"
SQUARE = "M-6.3 -6.3L6.3 -6.3L6.3 6.3L-6.3 6.3Z"
DIAMOND = "M0 -7.8L7.8 0L0 7.8L-7.8 0Z"
DRUM = "M-6 -4.4C-6 -8 6 -8 6 -4.4L6 4.4C6 8 -6 8 -6 4.4Z"
TRIANGLE = "M0 -7.5L7.5 6L-7.5 6Z"
CIRCLE = f"{_arc(RADIUS, 0, 360)}Z"
DOT = "M0 -0.5L0 0.5"

GLYPHS = {
    "crash": Glyph(OCTAGON, "M-3 -3L3 3M3 -3L-3 3"),
    "lose_host": Glyph(SQUARE, f"{_arc(3.6, -50, 230)}M0 -4.2L0 -0.4"),
    "slow": Glyph(OCTAGON, "M0 -3.2L-3.2 0L0 3.2M3.8 -3.2L0.6 0L3.8 3.2"),
    "pause": Glyph(OCTAGON, "M-1.9 -3L-1.9 3M1.9 -3L1.9 3"),
    "preempt": Glyph(SQUARE, "M-2.6 -3.4L2.6 -3.4L-2.6 3.4L2.6 3.4Z"),
    "disk_full": Glyph(DRUM, "M-3 -2.4L3 -2.4M-3 0.2L3 0.2M-3 2.8L3 2.8"),
    "disk_slow": Glyph(DRUM, "M0 -3.2L-3.2 0L0 3.2M3.8 -3.2L0.6 0L3.8 3.2"),
    "torn_write": Glyph(DRUM, "M-4 0.8L-1.6 -2.2L1 1.6L4 -1.4"),
    "partition": Glyph(DIAMOND, "M0 -4.2L0 4.2M-3.6 0L-2.6 0M2.6 0L3.6 0"),
    "drop": Glyph(DIAMOND, "M-2.2 -2.2L2.2 2.2M2.2 -2.2L-2.2 2.2"),
    "delay": Glyph(DIAMOND, "M0 -3.4L0 0.4L2.6 1.8"),
    "duplicate": Glyph(DIAMOND, "M-1.4 -2.8L-1.4 2.8M1.4 -2.8L1.4 2.8"),
    "slow_link": Glyph(DIAMOND, "M-0.4 -2.6L-3 0L-0.4 2.6M3 -2.6L0.4 0L3 2.6"),
    "fault": Glyph(DIAMOND, "M0 -3.6L0 0.6M0 3L0 3.6"),
    "error": Glyph(TRIANGLE, "M0 -2.8L0 1M0 3.4L0 4"),
    "retry": Glyph(CIRCLE, f"{_arc(3.3, -30, -330)}M3.4 -4.3L3.1 -1.6L0.5 -1.9"),
    "cancel": Glyph(CIRCLE, "M-3.4 0L3.4 0"),
    "rollback": Glyph(CIRCLE, "M0 -3.2L-3.2 0L0 3.2M3.8 -3.2L0.6 0L3.8 3.2"),
    "detect": Glyph(CIRCLE, f"{_arc(3.1, 0, 360)}{DOT}"),
    "restart": Glyph(CIRCLE, "M0 3.8L0 -3.4M-3 -0.6L0 -3.6L3 -0.6"),
    "heal": Glyph(CIRCLE, "M-3.2 0.2L-0.9 2.6L3.2 -2.4"),
    "resize": Glyph(CIRCLE, "M-4 0L4 0M-2 -2L-4 0L-2 2M2 -2L4 0L2 2"),
    "place": Glyph("M-1 -5L1 -5L1 5L-1 5Z", ""),
    "observe": Glyph("M0 -3.4L3 0L0 3.4L-3 0Z", ""),
}
OTHER_GLYPH = Glyph(CIRCLE, DOT)


def commands_of(path_data: str) -> list[tuple[str, list[tuple[float, float]]]]:
    """The commands of a path, each with its points.

    Args:
        path_data: absolute M, L, C and Z, as in `GLYPHS`.

    Returns:
        Pairs of a letter and its points: one for M and L, three for C, none for Z.

    Example:
        >>> commands_of("M0 -1L2 3Z")
        [('M', [(0.0, -1.0)]), ('L', [(2.0, 3.0)]), ('Z', [])]
    """
    commands: list[tuple[str, list[tuple[float, float]]]] = []
    for letter, rest in re.findall(r"([MLCZ])([^MLCZ]*)", path_data):
        numbers = [float(number) for number in rest.split()]
        commands.append((letter, list(zip(numbers[::2], numbers[1::2], strict=True))))
    return commands
