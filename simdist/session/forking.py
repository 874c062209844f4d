"""The commands of a fork: those of the session that it came from, without some and with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simdist.errors import InvalidArgumentError
from simdist.session.commands import Command, commands_of, in_order

__all__ = ["commands_of_fork"]


def commands_of_fork(before: Sequence[Command], without: Iterable[Command], plus: Iterable[Command]) -> list[Command]:
    """The commands of a fork, in order.

    Up to the first change the same events happen in both, and the same commands are done exactly where they were; later ones are done at
    their second.

    Args:
        before: the commands of the session, in order.
        without: those of them that the fork does not have.
        plus: commands that it has in addition.

    Raises:
        InvalidArgumentError: `without` has a command that the session does not have.
        TypeError: one of `without` or `plus` is no command.

    Example:
        >>> slow, crash = (Command(second, {"kind": "crash", "task": "worker:1"}, after_events=9) for second in (1.0, 2.0))
        >>> [(command.at_s, command.after_events) for command in commands_of_fork([slow, crash], [], [Command(1.5, crash.fault)])]
        [(1.0, 9), (1.5, None), (2.0, None)]
    """
    removed, added = commands_of(without, "without"), [command.by_time() for command in commands_of(plus, "plus")]
    commands = list(before)
    for command in removed:
        if command not in commands:
            raise InvalidArgumentError(f"without={command!r}: this session has no such command. It has {list(before)!r}.")
        commands.remove(command)
    commands = in_order([*commands, *added])
    same = next((index for index, pair in enumerate(zip(commands, before, strict=False)) if pair[0] != pair[1]), len(before))
    return [*commands[:same], *(command.by_time() for command in commands[same:])]
