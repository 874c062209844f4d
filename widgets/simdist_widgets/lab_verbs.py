"""What a click in the Lab does to its session: each verb is checked, carried out, and written down as a line of Python.

A verb that cannot be carried out changes nothing and says why. What a program raises is no error of the verb: the session has failed,
and its state says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from simdist.arguments import number, whole_number
from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.session import Command, Session, recovery
from simdist_widgets.lab_branches import Branches

__all__ = ["Verbs"]

AMOUNTS = ("events", "steps", "closures")


class Verbs:
    """The verbs of a Lab.

    Args:
        branches: what they are done to.

    Attributes:
        known: the verbs by name.
    """

    def __init__(self, branches: Branches) -> None:
        self.branches = branches
        self.known: dict[str, Callable[..., dict[str, Any] | None]] = {
            "step": self.step,
            "advance": self.advance,
            "seek": self.seek,
            "rewind": self.seek,
            "inject": self.inject,
            "plan": self.plan,
            "fork": self.fork,
            "select_branch": self.select_branch,
            "close_branch": self.close_branch,
            "compare": self.compare,
            "recover": self.recover,
        }

    @property
    def session(self) -> Session:
        return self.branches.present.session

    def perform(self, verb: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a verb; what the front end hears of it.

        Raises:
            InvalidArgumentError: a verb or an argument that is not known.
            SimdistError, TypeError: it cannot be carried out.
        """
        if not isinstance(verb, str) or verb not in self.known:
            raise InvalidArgumentError(f"verb={verb!r:.100} is not known. {did_you_mean(str(verb)[:100], self.known)}")
        self.branches.note_progress()
        shown = self.branches.present
        try:
            answer = self.known[verb](**arguments)
        except TypeError as error:
            if "argument" in str(error) and "()" in str(error):
                raise InvalidArgumentError(f"{verb} was given {sorted(arguments)}: {error}.") from error
            raise
        if self.branches.present is shown:
            shown.note()
        return {"at_s": self.session.now, **(answer or {})}

    # -- going on and back ----------------------------------------------------------------------------------------

    def step(self, **amount: Any) -> None:
        """Go on by so many events, steps or closures; one of them."""
        if len(amount) != 1 or next(iter(amount)) not in AMOUNTS:
            raise InvalidArgumentError(f"step was given {amount!r}; give one of {', '.join(AMOUNTS)}.")
        ((unit, count),) = amount.items()
        self._advance(**{unit: whole_number(count, unit, 1)})

    def advance(self, **goal: Any) -> None:
        """Go on as `Session.advance`; without an argument to the end."""
        if not set(goal) <= {"until", "by", *AMOUNTS}:
            raise InvalidArgumentError(f"advance was given {sorted(goal)}; give one of until, by, {', '.join(AMOUNTS)}, or nothing.")
        self._advance(**goal)

    def seek(self, t_s: Any) -> None:
        """Go to a virtual second: forwards, or back by running again."""
        if number(t_s, "t_s") >= self.session.now and self.session.state == "paused":
            self._advance(until=float(t_s))
        elif t_s <= self.session.now:
            self.session.rewind(float(t_s))
            self._log(f"rewind({float(t_s)!r})")
        else:
            raise InvalidArgumentError(f"t_s={t_s!r}: the program is {self.session.state} at {self.session.now:.6f} s. Go back instead.")

    def _advance(self, **goal: Any) -> None:
        session = self.session
        try:
            session.advance(**goal)
        except BaseException as error:
            if error is not session.error or isinstance(error, KeyboardInterrupt):  # Ctrl-C ends the cell, too
                raise
        self._log(f"advance({', '.join(f'{name}={value!r}' for name, value in goal.items())})")

    # -- breaking it ----------------------------------------------------------------------------------------------

    def inject(self, fault: Any) -> None:
        """Inject a fault: now, unless it says when; ``"for"`` stands for an end so many seconds from now."""
        given = self._with_end(fault)
        if self.session.inject(given) is not None:
            self._log(f"inject({given!r})")

    def plan(self, faults: Any) -> None:
        """Inject several faults, all or none: a list with one that makes no sense changes nothing."""
        if not isinstance(faults, list):
            raise InvalidArgumentError(f"plan was given {faults!r:.200}; give a list of faults.")
        given = [self._with_end(fault) for fault in cast("list[Any]", faults)]
        effects = self.session.cluster.faults.effects
        for fault in given:
            Command(self.session.now, fault).fault_at(self.session.now).check(effects)
        for fault in given:
            self.session.inject(fault)
            self._log(f"inject({fault!r})")

    def _with_end(self, fault: Any) -> dict[str, Any]:
        if not isinstance(fault, Mapping):
            raise InvalidArgumentError(f"{fault!r:.200} is no fault; give a dict such as {{'kind': 'crash', 'task': 'worker:1'}}.")
        given: dict[str, Any] = dict(cast("Mapping[str, Any]", fault))
        if "for" in given:
            if given.get("after_steps") is not None or "until" in given:
                raise InvalidArgumentError(f"{fault!r:.200} has 'for' beside 'until' or 'after_steps'. Give it 'until' alone.")
            at_s = self.session.now if given.get("at") is None else number(given["at"], "at")
            given["until"] = at_s + number(given.pop("for"), "for")
        return given

    # -- other runs -----------------------------------------------------------------------------------------------

    def fork(self, t_s: Any, without: Any = ()) -> dict[str, Any]:
        """Make another branch of this one, and show it."""
        if not isinstance(without, (list, tuple)):
            raise InvalidArgumentError(f"without={without!r:.100} must be a list of numbers of commands.")
        return {"branch": self.branches.fork(number(t_s, "t_s"), [whole_number(place, "without") for place in without]).number}

    def select_branch(self, branch: Any) -> None:
        """Show another branch."""
        self.branches.select(branch)

    def close_branch(self, branch: Any) -> None:
        """Give a branch up."""
        self.branches.close(branch)

    def compare(self, **other: Any) -> dict[str, Any]:
        """Up to where this branch and another one (``with``) are the same."""
        if set(other) != {"with"}:
            raise InvalidArgumentError(f"compare was given {sorted(other)}; give the number of a branch as 'with'.")
        found = self.session.compare(self.branches[other["with"]].session)
        return {"text": str(found), "same_until_s": found.same_until_s, "first": found.first, "second": found.second}

    def recover(self, command: Any) -> dict[str, Any]:
        """What a command has cost, against the run without it."""
        commands = self.session.commands
        if isinstance(command, bool) or not isinstance(command, int) or not 0 <= command < len(commands):
            raise InvalidArgumentError(
                f"command={command!r}: the branch has {len(commands)} command{'s' * (len(commands) != 1)}, counted from 0."
            )
        story = recovery(self.session, commands[command])
        phases: list[dict[str, Any]] = []
        for phase in story.phases:
            times = {"begin_s": phase.begin_s, "end_s": phase.end_s, "seconds": phase.end_s - phase.begin_s}
            phases.append({"name": phase.name, **times, "cost_s": phase.cost_s})
        return {"recovery": {"phases": phases, "cost_s": story.cost_s, "rows": [list(row) for row in story.rows()], "text": str(story)}}

    def _log(self, call: str) -> None:
        self.branches.log.append(f"{self.branches.present.name}.{call}")
