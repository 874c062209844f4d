"""Training with parameter servers in every mode: how workers wait for each other, what survives a crash of a server, what counts once.

The steps of a word are all the same; options say how many there are between two joins, and how the strategy is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist.chaos.dice import Dice
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.workloads.base import EndedRun, Excuse, Workload
from simdist.chaos.workloads.coordinator import excuses_of_servers
from simdist.chaos.workloads.plain import rows_of
from simdist.chaos.workloads.regression import INPUTS, LEARNING_RATE, MOMENTUM, START, TARGETS, batches
from simdist.chaos.workloads.replay import Ambiguous, Replay
from simdist.errors import DeadlineExceededError, TimedOutError, UnavailableError

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["STEP", "Servers", "counts_once", "servers_may_lose"]

STEP = "t"
BATCH = 6


class Servers(Workload):
    """See above."""

    name = "servers"
    weight = 3.0
    same_result = False
    uses_disks = True

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        mode = dice.part("mode").pick(["async", "sync", "bounded"], [1, 2, 1])
        recoveries = ["raise", "checkpoint", "replica"] if scenario.servers > 1 else ["raise", "checkpoint"]
        backups = dice.part("backups").whole(0, scenario.workers - 1) if mode == "sync" and dice.part("backup").chance(0.3) else 0
        return {
            "mode": mode,
            "staleness": dice.part("staleness").pick([0, 1, 2, 5]) if mode == "bounded" else None,
            "backup_workers": backups,
            "recovery": dice.part("recovery").pick(recoveries, [1, 1, 4][: len(recoveries)]),
            "exactly_once": dice.part("once").chance(0.5),
            "shards": dice.part("shards").whole(1, 3),
            "momentum": dice.part("momentum").chance(0.5),
            "data": dice.part("data").pick(["dataset", "arguments"]),
            "rounds": [dice.part("steps", number).whole(1, 12) for number in range(dice.part("joins").whole(1, 3))],
        }

    def jobs(self, scenario: Scenario) -> dict[str, int]:
        return {"worker": scenario.workers, "ps": scenario.servers}

    def run(self, stage: Stage) -> None:
        options = stage.options
        chosen = {name: options[name] for name in ("mode", "staleness", "backup_workers", "recovery", "exactly_once")}
        strategy = sd.ParameterServerStrategy(stage.cluster, sd.FixedShardsPartitioner(options["shards"]), **chosen)
        with strategy.scope():
            weights = sd.Variable(START, name="weights")
            count = sd.Variable(np.float32(0.0), name="count")
            optimizer = sd.Optimizer(optax.sgd(LEARNING_RATE, momentum=MOMENTUM if options["momentum"] else None))

        by_closure = _takes_arguments(options)

        @sd.function
        def step(*source: Any) -> Any:
            x, y = source if by_closure else next(*source)
            loss, gradients = sd.value_and_grad(lambda: jnp.mean((x @ weights.value - y) ** 2), [weights])()
            optimizer.apply_gradients(zip(gradients, [weights], strict=True))
            count.assign_add(1.0)
            return loss

        coordinator = sd.ClusterCoordinator(strategy)
        iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(BATCH)))
        for steps in options["rounds"]:
            for _ in range(steps):
                rows = rows_of(BATCH, len(stage.closures))
                args = (INPUTS[rows], TARGETS[rows]) if by_closure else (iterator,)
                stage.closures.append((STEP, coordinator.schedule(step, args=args)))
                stage.note("scheduled", fact=STEP)
            coordinator.join()
            stage.observe_served(weights.numpy)
        stage.keep("count", count.numpy)
        stage.keep("weights", weights.numpy)

    def smaller(self, scenario: Scenario) -> Iterator[Options]:
        options, rounds = scenario.options, scenario.options["rounds"]
        for position in range(len(rounds)) if len(rounds) > 1 else ():
            yield {**options, "rounds": [*rounds[:position], *rounds[position + 1 :]]}
        for position, steps in enumerate(rounds):
            if steps > 1:
                yield {**options, "rounds": [*rounds[:position], steps // 2, *rounds[position + 1 :]]}
        for name, least in (("exactly_once", False), ("momentum", False), ("shards", 1), ("backup_workers", 0)):
            if options[name] != least:
                yield {**options, name: least}

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        if servers_may_lose(run):
            yield from excuses_of_servers(run)
        else:
            for error, why in excuses_of_servers(run):
                if issubclass(error, (DeadlineExceededError, TimedOutError)):
                    yield error, why
            for server in _getting_back(run):
                yield UnavailableError, f"{server} did not have its variables back when they were read"

    def replayed(self, run: EndedRun) -> dict[str, np.ndarray]:
        options = run.scenario.options
        if servers_may_lose(run) or options["mode"] == "bounded" or options["backup_workers"]:
            return {}
        try:
            replay = Replay(run, BATCH, options["momentum"], by_closure=_takes_arguments(options))
            return {"weights": replay.of_rounds() if options["mode"] == "sync" else replay.of_updates()}
        except Ambiguous:
            return {}


def _takes_arguments(options: Options) -> bool:
    """Whether each closure has a batch of its own; otherwise it takes the next one of its worker."""
    return options.get("data") == "arguments"


def servers_may_lose(run: EndedRun) -> bool:
    """Whether a server died whose variables nothing could bring back, by a rule that is on the side of the engine."""
    servers = [task for task in run.cluster.tasks if task.startswith("ps")]
    died = run.processes.crashed(servers, run.end_s)
    if run.scenario.options["recovery"] != "replica":
        return bool(died)
    # One server at a time can be lost, and its copy must be complete: no second one dies, and messages between servers come.
    deaths = [down for down in run.processes.downs if down.task in servers and down.from_s <= run.end_s]
    return len(deaths) > 1 or (bool(deaths) and (run.silences.lost_messages(servers, run.end_s) or _stood_still(run, servers)))


def _getting_back(run: EndedRun) -> list[str]:
    """The servers that were down at the end, or were just getting their variables."""
    servers = [task for task in run.cluster.tasks if task.startswith("ps")]
    spans = run.cluster.trace.spans.where(category="setup")
    getting = {span.lane for span in spans if span.start_s <= run.end_s < span.end_s}
    return [server for server in servers if server in getting or not run.processes.is_up(server, run.end_s)]


def _stood_still(run: EndedRun, servers: list[str]) -> bool:
    return any(still.task in servers and still.from_s <= run.end_s for still in run.silences.stills)


def counts_once(run: EndedRun) -> bool:
    """Whether each closure that is done must have counted once."""
    options = run.scenario.options
    return (options["mode"] != "async" or options["exactly_once"]) and not servers_may_lose(run)
