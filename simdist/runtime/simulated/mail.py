"""How heartbeats get from a task to the chief: as words, which are lost where messages are lost."""

from __future__ import annotations

from collections.abc import Callable

from simdist.runtime.simulated.routes import Routes
from simdist.runtime.simulated.silence import Silence
from simdist.runtime.simulated.task import Incarnation, Task

__all__ = ["MailToChief"]


class MailToChief:
    """As `simdist.runtime.simulated.detection.Mail`.

    Args:
        routes: posts letters.
        silence: says who is not heard.
        chief: the task that listens.
    """

    def __init__(self, routes: Routes, silence: Silence, chief: Task) -> None:
        self.routes = routes
        self.silence = silence
        self.chief = chief

    def hears(self, task: Task) -> bool:
        return self.silence.hears(task, self.chief)

    def latency_s(self, task: Task) -> float:
        return self.routes.latency_s(task, self.chief)

    def post(self, task: Task, arrived: Callable[[Incarnation], None]) -> None:
        self.routes.post(task, self.chief, arrived, task.process)
