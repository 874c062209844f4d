"""A widget around a session: it plays it, does what clicks say, and sends what a front end shows.

The session runs in the kernel's main thread. Messages of the front end may come in another one; they are passed on. While the session
plays, the kernel works for some milliseconds of each frame, and answers between them.

What both sides say to each other: traits ``layout_of_cluster``, ``state``, ``cursor_s``, ``view_s``, ``selected``; messages
``{id, verb, ...}`` from the front end, each answered by ``{kind: "reply", id, at_s | error}``; messages ``rows`` and ``clear`` to
it (log_feed.py).
"""

from __future__ import annotations

import asyncio
import base64
import math
import time
from contextlib import suppress
from threading import get_ident
from typing import Any

import traitlets

from simdist.arguments import END_S, number
from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.runtime.cluster import Cluster
from simdist.session import Session
from simdist.session.run import Program
from simdist.trace.plots import timeline
from simdist_widgets.after_cells import after_each_cell
from simdist_widgets.base import BaseWidget
from simdist_widgets.cluster_layout import cluster_layout as layout_of
from simdist_widgets.fault_forms import fault_forms, presets, trigger_forms
from simdist_widgets.interrupts import Interrupts
from simdist_widgets.lab_branches import Branch, Branches
from simdist_widgets.lab_state import state_of
from simdist_widgets.lab_verbs import Verbs
from simdist_widgets.log_feed import LogFeed, known_styles
from simdist_widgets.recorded_branches import count_rows, recorded
from simdist_widgets.selected_spans import numbers_of, spans_of
from simdist_widgets.shown_time import checked_cursor_s, checked_view_s
from simdist_widgets.slices import Slice

__all__ = ["SessionWidget", "layout_and_forms"]

FRAME_S = 0.05  # twenty states a second at most
WORK_S = 0.02  # of each frame, for the run
REST_S = 0.01  # at least, for the messages that have come
HURRY_S = 0.08  # of work between two rests, where nobody watches on the way
AT_ONCE_S = 0.2  # up to which going somewhere is done before other messages are looked at
WARN_S = 1.0  # of the clock on the wall, from which a verb is announced
RUNS_OF_A_VERB = {"recover": 2, "fork": 1, "compare": 2}  # that it may have to compute, each as long as the present one
STORE_AFTER_S = 0.5  # a notebook that is saved while nothing plays has the rows
MOST_STORED = 20_000  # rows in a saved notebook: a megabyte
FIRST_PACE = 0.001  # virtual seconds a second, until it is known how long a step takes
UNITS_A_SECOND = 2.0  # closures or steps that a person can follow
# The verbs of the widget itself, with their arguments; the others are those of lab_verbs.py.
CONTROLS = {"play": {"until", "pace"}, "pause": set[str](), "set_pace": {"pace"}, "resend": set[str]()}


class SessionWidget(BaseWidget):
    """A session with a front end.

    Args:
        program: a function of a cluster, as for `sd.Session`; or a session.
        cluster: the cluster of which each run gets a fresh one; left out with a session.

    Attributes:
        session: of the branch that is shown.

    Raises:
        As `sd.Session`.
    """

    page_traits = ("layout_of_cluster", "state", "view_s")

    layout_of_cluster = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    cursor_s = traitlets.Float(None, allow_none=True).tag(sync=True)
    view_s = traitlets.List(traitlets.Float()).tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    """Numbers of the records that are selected."""
    stored = traitlets.Dict().tag(sync=True)
    """The rows and the states of all branches when nothing played last, for a notebook that is saved; {} where they are too many."""

    def __init__(self, program: Program | Session, cluster: Cluster | None = None) -> None:
        name = type(self).__name__
        if isinstance(program, Session):
            if cluster is not None:
                raise TypeError(f"{name} was given a session and a cluster; a session has one. Leave the cluster out.")
            session = program
        elif cluster is None:
            raise TypeError(f"{name} was given a program without a cluster; expected {name}(program, cluster), or a session.")
        else:
            session = Session(program, cluster)
        self._branches = Branches(session)
        self.verbs = Verbs(self._branches)
        self._thread = get_ident()
        self._loop = _running_loop()
        self._pace: float | None = None
        self._player: asyncio.Future[None] | None = None
        self._playing: object | None = None  # stands for the present play(); another one stands for another
        self._interrupts = Interrupts(self.pause)
        self._storing: asyncio.TimerHandle | None = None
        self._trouble = ""  # what has stopped the last play() that a click began
        super().__init__(layout_of_cluster=layout_and_forms(session.cluster), state=self._new_state())
        self.on_msg(self._message)
        after_each_cell(self._show_what_changed)

    @property
    def session(self) -> Session:
        return self._branches.present.session

    @property
    def selection(self) -> Any:
        """The selected spans as a DataFrame. To select others, set rows of ``session.trace.to_dataframe()``, or numbers of records."""
        return spans_of(self.session.trace, self.selected)

    @selection.setter
    def selection(self, spans: Any) -> None:
        self.selected = numbers_of(self.session.trace, spans)

    @traitlets.validate("selected")
    def _check_selected(self, proposal: Any) -> list[int]:
        return numbers_of(self.session.trace, proposal["value"])

    @traitlets.validate("cursor_s")
    def _check_cursor_s(self, proposal: Any) -> float | None:
        return checked_cursor_s(type(self).__name__, proposal["value"])

    @traitlets.validate("view_s")
    def _check_view_s(self, proposal: Any) -> list[float]:
        return checked_view_s(type(self).__name__, proposal["value"])

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take what the front end has set. It may still select records of a run that was taken back meanwhile: these are left out."""
        if isinstance(sync_data.get("selected"), list):
            recorded = self.session.trace.recorded
            kept = [record for record in sync_data["selected"] if isinstance(record, int) and 0 <= record < recorded]
            sync_data = {**sync_data, "selected": kept}
        super().set_state(sync_data)

    # -- playing --------------------------------------------------------------------------------------------------

    @property
    def pace(self) -> float:
        """Virtual seconds in a second; where none was chosen, such that a person can follow."""
        if self._pace is not None:
            return self._pace
        step_s = self.session.pace_s or 0.0
        return float(f"{UNITS_A_SECOND * step_s:.0e}") if step_s > 0.0 else FIRST_PACE  # one digit: a person reads it

    async def play(self, until: float | None = None, pace: float | None = None) -> None:
        """Play the branch that is shown, and let the notebook work meanwhile: ``await widget.play(until=0.005)``.

        Args:
            until: a virtual second; default the end.
            pace: virtual seconds in a second; default such that a person can follow.

        Raises:
            InvalidArgumentError: no second, one that is over, or a pace that is not positive.
            FailedPreconditionError: it plays already, or the session is closed.
            KeyboardInterrupt: Ctrl-C; the session is paused, and can go on.
        """
        await self._play_on(*self._begin_to_play(until, pace))

    def _begin_to_play(self, until: Any = None, pace: Any = None) -> tuple[object, float | None]:
        if self._playing is not None:
            raise FailedPreconditionError("It plays already. Call pause() first.")
        if self.session.state == "closed":
            raise FailedPreconditionError("The session is closed. Begin another run with session.rewind(0.0).")
        until_s = None if until is None else number(until, "until", below=END_S)
        if until_s is not None and until_s < self.session.now:
            raise InvalidArgumentError(f"until={until!r} s is over: it is {self.session.now:.6f} s. Seek back first.")
        if pace is not None:
            self._pace = number(pace, "pace", at_least=1e-12)
        self._playing, self._trouble = object(), ""
        return self._playing, until_s

    async def _play_on(self, playing: object, until_s: float | None, hurries: bool = False) -> None:
        branch = self._branches.present
        work_s, frame_s = (HURRY_S, 0.0) if hurries else (WORK_S, FRAME_S)
        try:
            while self._playing is playing and self._branches.present is branch and self._goes_on(until_s):
                began = time.perf_counter()
                self._interrupts.arm()
                with self._interrupts.working():
                    self._advance_a_frame(until_s, math.inf if hurries else self.pace * FRAME_S, work_s)
                self.show()
                await asyncio.sleep(max(REST_S, frame_s - (time.perf_counter() - began)))
        finally:
            self._interrupts.disarm()
            if self._playing is playing:
                self._playing = None
            if self._branches.present is branch:
                self._branches.note_progress()
            self.show()

    def _goes_on(self, until_s: float | None) -> bool:
        session = self.session
        return session.state == "paused" and (until_s is None or session.now < until_s or not session.is_settled)

    async def _play_of_a_click(self, playing: object, until_s: float | None, hurries: bool = False) -> None:
        """Nobody waits for it who would hear of an error: the state says it. Ctrl-C has paused the session, which is all it shall do."""
        try:
            await self._play_on(playing, until_s, hurries)
        except (Exception, KeyboardInterrupt) as error:
            self._trouble = f"{type(error).__name__}: {error}"
            self.show()

    def _advance_a_frame(self, until_s: float | None, most_s: float, work_s: float) -> None:
        """Advance by at most `most_s` virtual seconds, and for at most `work_s` real ones."""
        session = self.session
        target_s = session.now + most_s
        try:
            session.advance_to(Slice(target_s if until_s is None else min(target_s, until_s), work_s))
        except BaseException as error:
            if error is not session.error or isinstance(error, KeyboardInterrupt):
                raise

    def pause(self) -> None:
        """Stop playing, at the end of the present frame."""
        self._playing = None

    # -- what the front end says ----------------------------------------------------------------------------------

    def _message(self, _: Any, content: Any, buffers: Any) -> None:
        """A message has come, in whatever thread."""
        if get_ident() == self._thread or self._loop is None:
            self._answer(content)
        else:
            self._loop.call_soon_threadsafe(self._answer, content)

    def _answer(self, content: Any) -> None:
        given = dict(content) if isinstance(content, dict) else {}
        ident, verb = given.pop("id", None), given.pop("verb", None)
        try:
            if self._sets_out(ident, verb, given):
                return
            self._warn(ident, verb)
            reply = self._perform(verb, given)
        except SimdistError as error:
            reply = {"error": f"{error}"}
        except (Exception, KeyboardInterrupt) as error:  # a click is always answered; Ctrl-C has paused the session
            reply = {"error": f"{type(error).__name__}: {error}"}
        self.show()
        self.send({"kind": "reply", "id": ident, **reply})

    def _sets_out(self, ident: Any, verb: Any, given: dict[str, Any]) -> bool:
        """Whether a verb goes so far that it is on its way now: other messages are answered meanwhile, and this one on arrival."""
        session, target_s = self.session, given.get("t_s") if verb in ("seek", "rewind") else given.get("until")
        is_to_end = verb == "advance" and not given
        if _running_loop() is None or not (is_to_end or (verb in ("seek", "rewind", "advance") and len(given) == 1)):
            return False
        if not is_to_end and (isinstance(target_s, bool) or not isinstance(target_s, (int, float)) or not 0.0 <= target_s < END_S):
            return False  # refused where it is carried out
        self._branches.note_progress()
        if target_s is not None and target_s < session.now:
            if verb == "advance" or session.rewind_seconds(target_s) < AT_ONCE_S:
                return False
            session.rewind(0.0)
            self._branches.note_progress()  # where a click stops it on the way, its second alone does not say between which events
        if session.state != "paused":
            return False
        self._advance_a_frame(target_s, math.inf, AT_ONCE_S)
        is_past_the_end = verb != "advance" and session.state != "paused"  # as far as there is a way, and nothing is left to carry out
        if not self._goes_on(target_s) and not is_past_the_end:
            self._branches.present.note()
            return False
        self._playing, self._trouble = object(), ""
        self._player = asyncio.ensure_future(self._arrive(ident, self._playing, target_s))
        return True

    def _warn(self, ident: Any, verb: Any) -> None:
        """Say before, where an answer takes long and nothing else is answered meanwhile."""
        if not isinstance(verb, str) or verb not in RUNS_OF_A_VERB:
            return
        real_s = self.session.rewind_seconds(self.session.now) * RUNS_OF_A_VERB[verb]
        if real_s >= WARN_S:
            self.send({"kind": "busy", "id": ident, "text": f"The kernel computes runs like this one, for about {real_s:.0f} s."})

    async def _arrive(self, ident: Any, playing: object, until_s: float | None) -> None:
        await self._play_of_a_click(playing, until_s, hurries=True)
        self.send({"kind": "reply", "id": ident, "at_s": self.session.now})

    def _perform(self, verb: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        known = CONTROLS.get(verb) if isinstance(verb, str) else None
        if known is None:
            self._trouble = ""
            answer = self.verbs.perform(verb, arguments)
            if verb == "compare":
                self._send_rows(self._branches[arguments["with"]])  # it stands beside this one, and may never have been shown
            return answer
        if not set(arguments) <= known:
            raise InvalidArgumentError(f"{verb} was given {sorted(arguments)}; it takes {sorted(known) or 'no argument'}.")
        match verb:
            case "play":
                if _running_loop() is None:
                    raise FailedPreconditionError("Playing needs the event loop of a notebook, and none runs here. Use session.advance().")
                self._player = asyncio.ensure_future(self._play_of_a_click(*self._begin_to_play(**arguments)))
            case "pause":
                self.pause()
            case "set_pace":
                self._pace = number(arguments.get("pace"), "pace", at_least=1e-12)
            case _:
                self._resend()
        return {"at_s": self.session.now}

    # -- what the front end hears ---------------------------------------------------------------------------------

    def _new_state(self) -> dict[str, Any]:
        branch = self._branches.present
        state = self._state_of(branch)
        if self._playing is not None and state["state"] == "paused":
            state["state"] = "playing"
        state["message"] = state["message"] or self._trouble
        return state

    def _state_of(self, branch: Branch) -> dict[str, Any]:
        """What the front end shows of a branch, as long as nothing plays it."""
        state = state_of(branch.session, branch.loads)
        shown = {"branch": branch.number, "branches": self._branches.plain(), "log": self._branches.log[-500:], "pace": self.pace}
        return {**state, **shown}

    def show(self) -> None:
        """Send what is new to the front end."""
        self._send_rows(self._branches.present)
        self.state = self._new_state()
        if self._storing is not None:
            self._storing.cancel()
        loop = _running_loop()
        if loop is not None and self._playing is None:
            self._storing = loop.call_later(STORE_AFTER_S, self._store)

    def _show_what_changed(self) -> None:
        """Show what a cell has done to the session behind the widget's back. A run that is not kept has not been moved."""
        shown, session = self.state, self.session
        if self._playing is None and session.is_kept:
            now = session.now, session.moment().events, session.state, len(session.commands)
            if now != (shown["now_s"], shown["events"], shown["state"], len(shown["commands"])):
                self.show()

    def _store(self) -> None:
        """Keep what a saved notebook shows where no kernel runs."""
        self._storing = None
        kept = [branch for branch in self._branches if branch.session.is_kept]  # the others would have to run again
        if count_rows(kept) > MOST_STORED:
            self.stored = {}
            return
        rows, states = recorded(kept, self._state_of)
        self.stored = {"rows": [{**header, "data": data} for header, data in rows], "states": states}

    def _send_rows(self, branch: Branch) -> None:
        """Send the rows of a branch that the front end does not have yet."""
        if branch.feed_of_this_run():
            self.send({"kind": "clear", "branch": branch.number})
        found = branch.feed.take(branch.session.trace)
        if found is not None:
            header, data = found
            self.send({"kind": "rows", "branch": branch.number, **header}, [data])

    def _resend(self) -> None:
        """Everything again, for a front end that has just opened."""
        for shown in self._branches.plain():
            branch = self._branches[shown["number"]]
            if branch is self._branches.present or branch.feed.rows:
                branch.feed, branch.fed_run = LogFeed(), branch.session.begun_again
                self.send({"kind": "clear", "branch": branch.number})
                self._send_rows(branch)

    # -- without a kernel -----------------------------------------------------------------------------------------

    def page_state(self) -> dict[str, dict[str, Any]]:
        """The layout, and the states and the rows of all branches, for the exported page: its reader may look at each of them."""
        state = super().page_state()
        rows, states = recorded(self._branches, self._state_of)
        headers = [{**header, "bytes": f"rows_{place}"} for place, (header, _) in enumerate(rows)]
        state["values"] |= {"rows": headers, "states": states}
        state["bytes"] |= {f"rows_{place}": base64.b64encode(data).decode("ascii") for place, (_, data) in enumerate(rows)}
        return state

    def picture(self) -> Any:
        """The timeline of the branch that is shown, as a matplotlib ``Figure``."""
        return timeline(self.session.trace)

    def __repr__(self) -> str:
        return repr(self.session).replace("Session", type(self).__name__, 1)


def layout_and_forms(cluster: Cluster) -> dict[str, Any]:
    """What the front end gets once: where the tasks stand, the styles of the trace, the forms of all faults."""
    kinds, marks = known_styles()
    forms = {"faults": fault_forms(), "triggers": trigger_forms(), "presets": presets(cluster)}
    return {"version": 1, **layout_of(cluster), "kinds": kinds, "marks": marks, **forms}


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
