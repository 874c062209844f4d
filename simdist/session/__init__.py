"""Sessions: runs of a program that can be paused, broken on purpose, rewound and forked."""

from simdist.session.commands import Command, commands_from_json, commands_to_json
from simdist.session.comparison import Comparison
from simdist.session.session import Session, compare

__all__ = ["Command", "Comparison", "Session", "commands_from_json", "commands_to_json", "compare"]
