"""What stands beside the lanes of a picture: the task's name, or below it the part of a name that is a device's.

The interactive timeline (widgets/src/lane_labels.ts) writes the same; tests/widgets/picture_cases.json holds examples that both sides
are tested with.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MOST_CHARACTERS", "LaneLabel", "lane_label", "shorten_front"]

MOST_CHARACTERS = 16


@dataclass(frozen=True)
class LaneLabel:
    """The label of a lane: its text, and whether it is a part of a task (a device, a disk), which is written smaller."""

    text: str
    is_part: bool


def lane_label(lane: str) -> LaneLabel:
    """The label of a lane.

    Example:
        >>> lane_label("worker:0/gpu:1")
        LaneLabel(text='gpu:1', is_part=True)
        >>> lane_label("a_job_with_a_long_name:12").text
        '…_a_long_name:12'
    """
    _, slash, part = lane.partition("/")
    return LaneLabel(shorten_front(part if slash else lane, MOST_CHARACTERS), bool(slash))


def shorten_front(text: str, most: int) -> str:
    """A text of at most `most` characters: its end tells it apart from others, so it is cut from the front."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"
