"""Sessions: runs of a program that can be paused, broken on purpose, rewound and forked."""

from simdist.session.commands import Command, commands_from_json, commands_to_json
from simdist.session.comparison import Comparison, compare
from simdist.session.goals import Frame, Moment
from simdist.session.recovery import Phase, Recovery, recovery
from simdist.session.session import Session
from simdist.session.sharing import open_share, share

__all__ = [
    "Command",
    "Comparison",
    "Frame",
    "Moment",
    "Phase",
    "Recovery",
    "Session",
    "commands_from_json",
    "commands_to_json",
    "compare",
    "open_share",
    "recovery",
    "share",
]
