"""`FaultConsole`: faults are planned by clicking, and what becomes of each is seen.

Taught in lesson 12.
"""

from __future__ import annotations

from simdist_widgets.host_page import text_of
from simdist_widgets.session_widget import SessionWidget

__all__ = ["FaultConsole"]


class FaultConsole(SessionWidget):
    """The faults of a session: forms for all kinds, presets by name, and a list of what is pending, fired, healed or never.

    Args:
        program: a session; or a function of a cluster, as for `sd.Session`.
        cluster: the cluster of which each run gets a fresh one; left out with a session.

    Raises:
        As `sd.Session`.

    Example:
        >>> import simdist as sd
        >>> session = sd.Session(lambda cluster: sd.sleep(1.0, cluster), sd.Cluster({"worker": 2}))
        >>> FaultConsole(session)
        FaultConsole(paused at 0.000000 s, 0 commands)
    """

    page_name = "fault_console"
    _esm = text_of("fault_console.js")
    _css = text_of("fault_console.css")
