"""`Lab`: a running cluster in a notebook, to be paused, broken with a click, rewound, forked and compared.

Taught in lesson 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import traitlets

from simdist.errors import InvalidArgumentError
from simdist_widgets.host_page import PARTS, text_of
from simdist_widgets.lab_table import as_text, line_of
from simdist_widgets.session_widget import CONTROLS, SessionWidget

__all__ = ["Lab"]


class Lab(SessionWidget):
    """A cluster that runs before your eyes.

    Args:
        program: a function of a cluster, as for `sd.Session`; or a session.
        cluster: the cluster of which each run gets a fresh one; left out with a session.

    Attributes:
        session: of the branch that is shown.

    Raises:
        As `sd.Session`.

    Example:
        >>> import simdist as sd
        >>> def program(cluster):
        ...     for _ in range(3):
        ...         sd.sleep(1.0, cluster)
        >>> lab = Lab(program, sd.Cluster({"worker": 2}))
        >>> crash = {"kind": "crash", "task": "worker:1"}
        >>> lab.script([{"verb": "seek", "t_s": 1.5}, {"verb": "inject", "fault": crash}, {"verb": "advance"}])
        verb                       state              now  commands
        seek t_s=1.5               paused      1.500000 s  0
        inject crash task=worker:1 paused      1.500000 s  1
        advance                    finished    3.000000 s  1
    """

    page_name = "lab"
    _esm = text_of("lab.js")
    _css = text_of("lab.css")

    scripts = traitlets.Dict().tag(sync=True)
    """The texts of the bundles that the Lab's own script loads: a script of a widget cannot import another one."""

    @traitlets.default("scripts")
    def _texts_of_parts(self) -> dict[str, str]:
        return {name: text_of(f"{name}.js") for name in PARTS["lab"]}

    def script(self, messages: list[dict[str, Any]]) -> None:
        """Do what clicks would do, and print a table of it that is the same on every machine: with the error of a program that fails.

        Args:
            messages: as the front end sends them: ``{"verb": "inject", "fault": {...}}``, ``{"verb": "seek", "t_s": 0.01}``, ...; all
                but those that play and pause.

        Raises:
            SimdistError, TypeError: they are no list of dicts, or one cannot be carried out; those before it have been: see the table.
            KeyboardInterrupt: Ctrl-C; what was done so far stays.
        """
        lines: list[tuple[str, ...]] = []
        parts = cast(object, messages)
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Mapping) for part in cast(list[object], parts)):
            raise TypeError(f'script takes a list of dicts, for example [{{"verb": "advance"}}]; got {messages!r:.100}.')
        try:
            for message in messages:
                given = dict(message)
                _require_verb_of_script(given.get("verb"))
                known = self.session.error
                answer = self.verbs.perform(given.pop("verb", None), given)
                lines.append(line_of(message, answer, self.session, known))
        finally:  # those before one that cannot be carried out may say why it cannot
            self.show()
            if lines:
                print(as_text(lines))


def _require_verb_of_script(verb: Any) -> None:
    """Refuse what a click does to the playing of a Lab: a script does one verb after the other, and plays nothing."""
    if isinstance(verb, str) and verb in CONTROLS:
        raise InvalidArgumentError(f"verb={verb!r} is for clicks. In a script 'advance' goes on: until=0.005, by=0.001, or to the end.")
