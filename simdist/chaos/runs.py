"""One run of a scenario: the workload until it ends, then a quiet time in which beliefs settle."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable

from simdist.chaos.incarnations import Incarnations
from simdist.chaos.kinds import KINDS, Ground
from simdist.chaos.probe import Probe, held_bytes
from simdist.chaos.scenarios import Disturbance, Scenario
from simdist.chaos.silences import Silences
from simdist.chaos.stage import Stage
from simdist.chaos.workloads import WORKLOADS
from simdist.runtime.cluster import Cluster
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S

__all__ = ["ScenarioRun", "run"]

# Longer than the silence after which the chief believes that a task is down, and its heartbeats.
QUIET_S = 8.0


class ScenarioRun:
    """One run of a scenario, and its result.

    Attributes:
        stage: what the workload saw.
        error: how it ended; None: well.
        end_s: when it ended; after that everything was left alone until `quiet_s`.
        held: bytes on each processor at its end.
        fired: the disturbances that happened.
        processes: who was up when.
        silences: who was silent when.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.workload = WORKLOADS[scenario.workload]
        self.cluster = Cluster(
            self.workload.jobs(scenario),
            seed=scenario.seed,
            hardware=scenario.chips.device(),
            network=scenario.wires.network(),
            numerics=scenario.numerics,
        )
        self.stage = Stage(scenario, self.cluster)
        self.probe = Probe(self.cluster)
        self.error: BaseException | None = None
        self.quiet_error: BaseException | None = None
        self._planned: list[tuple[Disturbance, Callable[[], bool]]] = []

    def perform(self) -> ScenarioRun:
        """Run it to its end."""
        self._planned = [(d, KINDS[d.kind].plan(self.stage, d)) for d in self.scenario.disturbances]
        self.error = _error_of(lambda: self.workload.run(self.stage))
        self.end_s = self.cluster.now
        self.held = held_bytes(self.cluster)
        self.waiting = [fiber.lane for fiber in self.cluster.world.clock.fibers]
        self.quiet_error = _error_of(self._be_quiet)
        self.quiet_s = self.cluster.now
        self.probe.final()
        self.fired = [disturbance for disturbance, happened in self._planned if happened()]
        self.processes = Incarnations(self.cluster.trace)
        self.silences = Silences(self.cluster.trace, self.processes)
        return self

    def _be_quiet(self) -> None:
        """Wait until every planned event is over, and then until every task can know of it."""
        last_s = max((KINDS[d.kind].over_s(d) for d in self.scenario.disturbances), default=0.0)
        slowness = math.prod(max(1.0, d.figures.get("factor") or 1.0) for d in self.scenario.disturbances)
        # What a task was computing when it died comes to nothing at its end, which several slow faults put off.
        self.cluster.world.clock.sleep(max(0.0, last_s - self.end_s) + QUIET_S * slowness)
        # The end of bytes on a link that was slow for a while is put off, and brought forward again: the later one comes to nothing.
        slow_bytes = math.prod(max(1.0, d.figures.get("bandwidth_factor") or 1.0) for d in self.scenario.disturbances)
        self.cluster.world.clock.sleep(self.workload.message_bytes * slow_bytes / self.scenario.wires.bandwidth)
        if self.cluster.world.silence.is_expected:  # who waits for a lost message gives up
            self.cluster.world.clock.sleep(CALL_TIMEOUT_S)
        restarts_s = [(d.figures.get("restart_after") or 0.0) + d.figures.get("notice", 0.0) for d in self.scenario.disturbances]
        if restarts_s:  # of crashes whose moment was not known before
            self.cluster.world.clock.sleep(max(restarts_s) + QUIET_S)

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a fault never fired is no news here
            self.cluster.close()

    @property
    def digest(self) -> str:
        return self.cluster.trace.digest()

    @property
    def bits(self) -> str:
        """Sixteen digits of all numbers at its end."""
        sha = hashlib.sha256()
        for name in sorted(self.stage.values):
            sha.update(name.encode() + self.stage.values[name].tobytes())
        return sha.hexdigest()[:16]

    def ground(self) -> Ground:
        """What this run shows, if nothing disturbed it: where a disturbance can be put."""
        spans = self.cluster.trace.spans
        moments = sorted({float(t) for t in (*spans.start, *spans.end) if 0.0 < t < self.end_s})
        roles = self.workload.roles(self.scenario)
        steps = {name: task.steps for name, task in self.cluster.world.tasks.items()}
        scales = (self.scenario.wires.latency_s, max(self.end_s, 1e-6), *self.workload.scales_s)
        disks = tuple(self.cluster.world.disks.used)
        return Ground(max(self.end_s, 1e-6), tuple(moments), roles, steps, self.stage.observations, scales, disks)


def run(scenario: Scenario) -> ScenarioRun:
    """Run a scenario; its end is examined later.

    Example:
        >>> run(Scenario("mains", {"naps": 2, "nap_s": 0.5}, workers=2)).end_s
        1.0
    """
    return ScenarioRun(scenario).perform()


def _error_of(function: Callable[[], None]) -> BaseException | None:
    try:
        function()
    except BaseException as error:
        # What escapes here, SystemExit too, comes from the engine or the workload: how a run ends is what is judged.
        return error
    return None
