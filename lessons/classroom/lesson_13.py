"""The exercises of lesson 13, machines that are taken away, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

import simdist as sd
from classroom.answers import a_function, a_number, lowered
from classroom.calls import called_in_main
from classroom.exercise import Exercise, NotAnswered
from classroom.spot import POLICIES, Job, make_cluster, outcome, repeated
from classroom.values import described
from simdist.hardware import DiskModel

__all__ = [
    "MARKETS",
    "WHY_MARKET",
    "WHY_NOTICE",
    "WHY_OWN_DISK",
    "cost_of",
    "first_exercise",
    "second_exercise",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_NOTICE = """
As long as a step and a save: 2 s and 2 s, and some messages. At worst the notice comes when a step has just begun. The program looks at
it only before the next step, and then the chief has to write. With a notice of three seconds it depends on luck, and without it
**everything** is lost that was not saved before.
"""

WHY_OWN_DISK = """
All eleven that were done. The notice came in time, the checkpoint was written and complete, and it went with the machine: its disk is a
part of it. Nothing says so. The main that starts again finds an empty directory, and that is what every training begins with.
"""

WHY_MARKET = """
"elastic". Whenever a machine is away, two others take over its rows, and a step takes 23 seconds in place of 15. With both other policies
**all** machines wait for the one that is away, 60 seconds each time: they lose three times as much as was taken, whether they have
noticed it before or not.
"""

# -- how long a step may be -----------------------------------------------------------------------------------------------

NOTICE_S = 120.0
SAVE_S = 80.0
SHORTEST_S = 38.0


def lost_steps(step_s: float) -> int:
    """How many steps are lost with steps of so many seconds, where the notice comes when one has just begun."""
    disk = DiskModel(write_bandwidth=100.0, read_bandwidth=1e9, latency=0.0, fsync=0.0)
    cluster = sd.Cluster({"worker": 1}, seed=13, disks=disk)
    cluster.faults.preempt("worker:0", at=3.001 * step_s, notice=NOTICE_S, restart_after=60.0)
    directory, points = cluster.directory("saved"), cast("list[tuple[float, float]]", [])

    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            done = sd.Variable(np.zeros(int(SAVE_S * 100 / 4) - 2, np.float32), name="done")
        handler = sd.PreemptionCheckpointHandler(strategy.cluster_resolver, sd.Checkpoint(done=done), directory)

        def step() -> None:
            sd.sleep(step_s)
            done.assign_add(np.ones_like(done.numpy()))

        while (steps := float(done.numpy()[0])) < 6:
            points.append((cluster.now, steps))
            handler.run(step)

    cluster.launch(main, restart="always").join()
    return repeated(points)


def longest_step(step_s: float) -> str | None:
    """The longest step with which nothing is lost."""
    lost = lost_steps(step_s)
    if lost:
        why = "the notice came when one had just begun, and the save was not done in time"
        return f"with steps of {step_s:g} s, {lost} steps were lost: {why}."
    if step_s < SHORTEST_S:
        return f"nothing is lost with steps of {step_s:g} s, but they may be longer."
    return None


first_exercise = Exercise(
    "Give the seconds that a step may take at most.",
    a_number("seconds", longest_step, least=1, most=1000),
    hints=(
        "At worst the notice comes when a step has just begun. What has to happen from then on until the machine goes?",
        "The step has to end, and then 80 s are needed for the save. So 120 seconds are a step and 80.",
    ),
    why="The program looks at its notices between steps: so a step and a save have to fit into the notice.",
)

# -- what is cheapest ---------------------------------------------------------------------------------------------------

MARKETS: dict[str, tuple[float, float | None, int]] = {
    "on demand": (3.0, None, 0),
    "calm": (1.0, 1200.0, 1),
    "busy": (0.6, 300.0, 0),
}
"""Price of a machine for an hour, seconds on average until each one is taken, and the seed of the moments."""
LATEST_S = 1000.0


def cost_of(market: str, policy: str) -> float:
    """What the job costs: for each machine the time in which it was there."""
    price, between_s, seed = MARKETS[market]
    return outcome(policy, between_s, seed).paid_s * price / 3600


def is_allowed(market: str, policy: str) -> bool:
    """Whether it ends in time, with the bits of the undisturbed run."""
    _, between_s, seed = MARKETS[market]
    found = outcome(policy, between_s, seed)
    return found.end_s <= LATEST_S and found.digest == outcome(policy).digest


def cheapest(answer: Any) -> str | None:
    """A market and a policy that cost least, of those that are allowed."""
    if not isinstance(answer, dict) or set(map(str, answer)) != {"market", "policy"}:
        return f"{described(answer)} is no dict with a market and a policy: give for example {{'market': 'calm', 'policy': 'restart'}}."
    given = cast("dict[str, Any]", answer)
    market, policy = lowered(given["market"]), lowered(given["policy"])
    if market is None or market not in MARKETS:
        return f"{described(given['market'])} is no market: give one of {', '.join(map(repr, MARKETS))}."
    if policy is None or policy not in POLICIES:
        return f"{described(given['policy'])} is no policy: give one of {', '.join(map(repr, POLICIES))}."
    found = outcome(policy, *MARKETS[market][1:])
    if found.end_s > LATEST_S:
        return f"it ends at {found.end_s:.0f} s, and has to end by {LATEST_S:.0f} s."
    if not is_allowed(market, policy):
        return "its weights are not bit for bit those of the undisturbed run: two machines add up in another order than three."
    least = min(cost_of(one, other) for one in MARKETS for other in POLICIES if is_allowed(one, other))
    cost = cost_of(market, policy)
    return None if cost <= least else f"it costs {cost:.2f}, and there is one that costs {least:.2f}."


second_exercise = Exercise(
    "Give a dict with 'market' ('on demand', 'calm' or 'busy') and 'policy' ('restart', 'notice' or 'elastic').",
    cheapest,
    hints=(
        "Which of the policies keeps all bits? Of the others, which markets let it end in time?",
        "outcome(policy, between_s, seed) has end_s, paid_s and digest. The busy market is too slow for whoever begins again each time.",
    ),
    why="The elastic run is cheaper, and has other bits; the busy market is cheaper, and too slow. A notice saves the steps that would be "
    "repeated, and the regular checkpoints.",
)

# -- the loop -----------------------------------------------------------------------------------------------------------

LOOP_STEPS = 12
LATEST_END_S = 45.0
MOST_STEPS = 5 * LOOP_STEPS  # also of those that are taken again


def run_loop(function: Callable[..., Any], disturbed: bool = True) -> tuple[int, float, int, str]:
    """Run a function that trains in two mains, of which one is taken away.

    Returns:
        Steps that were taken twice, the end in seconds, steps that are done, and the digest of the weights.
    """
    cluster = make_cluster(workers=2)
    directory, points = cluster.directory("saved"), cast("list[tuple[float, float]]", [])
    if disturbed:
        cluster.faults.preempt("worker:1", at=13.0, notice=10.0, restart_after=5.0)

    class Noted(Job):
        def step(self) -> None:
            if self.done >= LOOP_STEPS:
                raise ValueError(f"there are only {LOOP_STEPS} steps to take")
            if len(points) >= MOST_STEPS:  # it would never end
                what = "Whoever makes a handler goes back to its checkpoint: make one, before the loop."
                raise ValueError(f"{MOST_STEPS} steps were taken, and only {self.done} are done. {what}")
            if self.strategy.worker_index == 0:
                points.append((cluster.now, self.done))
            super().step()

    def main() -> tuple[int, str]:
        job = Noted(sd.MultiWorkerMirroredStrategy())
        if called_in_main(function, job, directory) is ...:
            raise NotAnswered
        return job.done, job.digest()

    run = cluster.launch(main, restart="always")
    run.join()
    done, digest = run.results["worker:0"]
    return repeated(points), cluster.now, done, digest


def in_time(function: Callable[..., Any]) -> str | None:
    """A loop that loses nothing, and saves only when it has to."""
    again, end_s, done, digest = run_loop(function)
    if done != LOOP_STEPS:
        return f"{done} steps are in the weights in the end; it has to be {LOOP_STEPS}. Go on while job.done is less."
    if again:
        return f"{again} steps were taken twice, because worker:1 was taken away and they were not saved."
    if digest != run_loop(plain_loop, disturbed=False)[-1]:
        return "the weights are not those of the undisturbed run, bit for bit. Is all of the job's state in what you save?"
    if end_s > LATEST_END_S:
        return f"nothing is lost, but it ends at {end_s:.1f} s; {LATEST_END_S:.0f} s are enough if it saves only when there is a notice."
    return None


def plain_loop(job: Job, _: str) -> None:
    """The loop that knows of no notice."""
    while job.done < LOOP_STEPS:
        job.step()


third_exercise = Exercise(
    "Complete train, which takes the steps of the job up to the twelfth, and loses none when a machine is taken away.",
    a_function("of a job and a directory", in_time),
    hints=(
        "sd.PreemptionCheckpointHandler takes the strategy's cluster_resolver, a checkpoint and a directory. It restores when it is made.",
        "In the loop call handler.run(job.step) in place of job.step(): it looks for a notice before each step.",
    ),
    why="The handler restores when it is made, and asks for notices before each step, on all mains together.",
)
