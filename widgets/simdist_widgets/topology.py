"""`Topology`: the tasks of a cluster and the network between them, with what each does and what is on its way.

Taught in lesson 12.
"""

from __future__ import annotations

from typing import Any

import traitlets

from simdist.extras import needs
from simdist.runtime.cluster import Cluster
from simdist.session import Session
from simdist.session.present import task_states
from simdist_widgets.base import BaseWidget
from simdist_widgets.host_page import text_of
from simdist_widgets.lab_state import moment_of
from simdist_widgets.session_widget import layout_and_forms

__all__ = ["Topology"]

COLORS = {"down": "#d1423f", "restarting": "#b35900", "paused": "#7b3fa0", "cut off": "#7b3fa0", "slow": "#b35900"}
BUSY, IDLE = "#0072b2", "#7a8ca0"


class Topology(BaseWidget):
    """The tasks of a cluster, at this moment. `refresh` shows a later one.

    Args:
        cluster: a cluster, or a session.

    Raises:
        TypeError: it is neither.

    Example:
        >>> import simdist as sd
        >>> Topology(sd.Cluster({"worker": 3, "ps": 2}))
        Topology(6 tasks at 0.000000 s: 6 idle)
    """

    page_name = "topology"
    page_traits = ("layout_of_cluster", "state")
    _esm = text_of("topology.js")
    _css = text_of("topology.css")

    layout_of_cluster = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, cluster: Cluster | Session) -> None:
        if not isinstance(cluster, (Cluster, Session)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Topology: expected a Cluster or a Session, got {type(cluster).__name__}.")
        self._shown = cluster
        super().__init__(layout_of_cluster=layout_and_forms(self.cluster), state=moment_of(self.cluster))

    @property
    def cluster(self) -> Cluster:
        """The cluster; that of the session's present run."""
        return self._shown.cluster if isinstance(self._shown, Session) else self._shown

    def refresh(self) -> None:
        """Show the present moment."""
        if len(self.layout_of_cluster["tasks"]) != len(self.cluster.world.tasks):  # a worker has joined
            self.layout_of_cluster = layout_and_forms(self.cluster)
        self.state = moment_of(self.cluster)

    def picture(self) -> Any:
        """The same as a matplotlib ``Figure``."""
        with needs("The static picture of a widget", "lab"):
            from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        axes = figure.add_subplot()
        places = {place["name"]: (place["x"], place["y"]) for place in [*self.layout_of_cluster["tasks"], *self.layout_of_cluster["hubs"]]}
        for link in self.layout_of_cluster["links"]:
            (x0, y0), (x1, y1) = places[link["source"]], places[link["target"]]
            axes.plot([x0, x1], [y0, y1], color="#b8c0c8", linewidth=1.2, zorder=1)
        for task, state in zip(self.layout_of_cluster["tasks"], self.state["tasks"], strict=True):
            color = COLORS.get(state, IDLE if state in ("idle", "waiting") else BUSY)
            axes.scatter([task["x"]], [task["y"]], s=260, color=color, edgecolor="white", zorder=2)
            if not self.layout_of_cluster["is_grid"]:
                axes.annotate(
                    f"{task['name']}\n{state}",
                    (task["x"], task["y"]),
                    (0, -14),
                    textcoords="offset points",
                    ha="center",
                    va="top",
                    fontsize=8,
                    parse_math=False,
                )
        axes.set(xlim=(-0.02, 1.02), ylim=(1.06, -0.02), xticks=[], yticks=[])
        axes.set_title(f"{self.state['now_s'] * 1e3:.3f} ms of virtual time", fontsize=9, loc="left")
        for side in axes.spines.values():
            side.set_visible(False)
        return figure

    def __repr__(self) -> str:
        states = list(task_states(self.cluster).values())
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"Topology({len(states)} tasks at {self.cluster.now:.6f} s: {counts})"
