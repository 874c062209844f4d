"""The branches of the Lab: sessions that came from one, each with a name, and the lines of Python that made them what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.session import Moment, Session
from simdist_widgets.lab_state import LinkLoads
from simdist_widgets.log_feed import LogFeed

__all__ = ["Branch", "Branches"]


@dataclass
class Branch:
    """One branch.

    Args:
        number: by which the front end knows it.
        name: of the tab, and of the variable in the log.
        session: its run.
        forked_from, forked_at_s: the branch that it came from, and where; None for the first.
        feed: what the front end has of its trace.
        fed_run: of which run, as ``session.begun_again`` counts them.
        noted: up to where the log has it: which run, and which moment of it.
    """

    number: int
    name: str
    session: Session
    forked_from: int | None = None
    forked_at_s: float | None = None
    feed: LogFeed = field(default_factory=LogFeed)
    loads: LinkLoads = field(default_factory=LinkLoads)
    fed_run: int = field(init=False)
    noted: tuple[int, Moment] = field(init=False)

    def __post_init__(self) -> None:
        self.fed_run = self.session.begun_again
        self.note()

    def note(self) -> None:
        """The log has it up to here."""
        self.noted = self.session.begun_again, self.session.moment()

    def feed_of_this_run(self) -> bool:
        """Begin a new feed where the session has begun again; whether it has, so that the rows of the front end are void."""
        if self.fed_run == self.session.begun_again:
            return False
        self.feed, self.fed_run = LogFeed(), self.session.begun_again
        return True

    def plain(self) -> dict[str, Any]:
        """What its tab says."""
        return {
            "number": self.number,
            "name": self.name,
            "now_s": self.session.now,
            "state": self.session.state,
            "commands": len(self.session.commands),
            "forked_from": self.forked_from,
            "forked_at_s": self.forked_at_s,
        }


class Branches:
    """All branches, one of which is shown.

    Args:
        session: of the first one.

    Attributes:
        present: the one that is shown.
        log: what was done to all of them, as lines of Python.
    """

    def __init__(self, session: Session) -> None:
        self.present = Branch(0, "session", session)
        self.log: list[str] = []
        self._all = {0: self.present}
        self._count = 1

    def __getitem__(self, number: Any) -> Branch:
        """The branch of a number.

        Raises:
            InvalidArgumentError: there is none.
        """
        if isinstance(number, bool) or not isinstance(number, int) or number not in self._all:
            raise InvalidArgumentError(f"There is no branch {number!r:.100}. There are: {', '.join(map(str, self._all))}.")
        return self._all[number]

    def __iter__(self) -> Iterator[Branch]:
        return iter(list(self._all.values()))

    def plain(self) -> list[dict[str, Any]]:
        """What the tabs say."""
        return [branch.plain() for branch in self._all.values()]

    def note_progress(self) -> None:
        """Write down how far the present branch came on without a click: while it played, or in a cell."""
        branch, session = self.present, self.present.session
        (run, before), now = branch.noted, session.moment()
        # A run that has begun again and come further is where the one before it would be, too.
        if run != session.begun_again and (now.events, now.now_s) < (before.events, before.now_s):
            self.log.append(f"{branch.name}.rewind({session.now!r})")
        elif session.state != "closed" and now != before:
            self.log.append(f"{branch.name}.advance({_goal(session, now.events - before.events)})")
        branch.note()

    def fork(self, t_s: float, without: Sequence[int]) -> Branch:
        """Make a branch of the present one, and show it.

        Args:
            t_s: where it stands, in virtual seconds.
            without: places of commands in ``session.commands`` that it does not have.

        Raises:
            InvalidArgumentError: there is no such command.
        """
        source = self.present
        commands = source.session.commands
        wrong = [place for place in without if place not in range(len(commands))]
        if wrong:
            raise InvalidArgumentError(
                f"without={wrong[0]!r}: the branch has {len(commands)} command{'s' * (len(commands) != 1)}, counted from 0."
            )
        session = source.session.fork(t_s, without=[commands[place] for place in without])
        name = f"fork_{self._count}"
        left_out = ", ".join(f"{source.name}.commands[{place}]" for place in without)
        self.log.append(f"{name} = {source.name}.fork({t_s!r}{f', without=[{left_out}]' if without else ''})")
        self.present = self._all[self._count] = Branch(self._count, name, session, source.number, t_s)
        self._count += 1
        return self.present

    def select(self, number: Any) -> Branch:
        """Show another branch."""
        self.present = self[number]
        return self.present

    def close(self, number: Any) -> None:
        """Give a branch up.

        Raises:
            InvalidArgumentError: it is the only one, or there is none.
        """
        branch = self[number]
        if len(self._all) == 1:
            raise InvalidArgumentError("This is the only branch. Make another one first: fork.")
        del self._all[branch.number]
        if branch is self.present:
            self.present = next(iter(self._all.values()))
        branch.session.close()
        self.log.append(f"{branch.name}.close()")


def _goal(session: Session, events: int) -> str:
    """The argument of an `advance` by so many events that comes to where a session stands."""
    if session.state in ("finished", "failed") and not isinstance(session.error, KeyboardInterrupt):
        return ""  # the program ends after its last event: so many events alone do not come to it
    return f"until={session.now!r}" if session.is_settled else f"events={events}"
