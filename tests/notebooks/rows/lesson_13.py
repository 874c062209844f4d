"""Answers to the exercises of lesson 13."""

from __future__ import annotations

from typing import Any

from exercise_rows import Rows

import simdist as sd


def with_handler(job: Any, directory: str) -> None:
    resolver = job.strategy.cluster_resolver
    handler = sd.PreemptionCheckpointHandler(resolver, job.checkpoint, directory)
    while job.done < 12:
        handler.run(job.step)


def with_watched_scope(job: Any, directory: str) -> None:
    manager = sd.CheckpointManager(job.checkpoint, directory, max_to_keep=2)
    handler = sd.PreemptionCheckpointHandler(job.strategy.cluster_resolver, manager)
    with handler.watch_preemption_scope():
        while job.done < 12:
            job.step()
            handler.save_checkpoint_if_preempted()


def weights_only(job: Any, directory: str) -> None:
    class Count:
        def state_dict(self) -> dict[str, int]:
            return {"done": job.done}

        def load_state_dict(self, state: dict[str, int]) -> None:
            job.done = state["done"]

    checkpoint = sd.Checkpoint(weights=job.weights, count=Count())
    handler = sd.PreemptionCheckpointHandler(job.strategy.cluster_resolver, checkpoint, directory)
    while job.done < 12:
        handler.run(job.step)


def saving_always(job: Any, directory: str) -> None:
    manager = sd.CheckpointManager(job.checkpoint, directory, max_to_keep=1)
    manager.restore_or_initialize()
    while job.done < 12:
        job.step()
        manager.save()


def knowing_of_nothing(job: Any, directory: str) -> None:
    while job.done < 12:
        job.step()


def too_many(job: Any, directory: str) -> None:
    while job.done < 13:
        job.step()


def handlers_in_the_loop(job: Any, directory: str) -> None:
    while job.done < 12:
        sd.PreemptionCheckpointHandler(job.strategy.cluster_resolver, job.checkpoint, directory).run(job.step)


ROWS = {
    "first_exercise": Rows(
        right=[40, 39.5, 38],
        wrong=[
            (41, "4 steps were lost"),
            (40.1, "4 steps were lost"),
            (120, "steps were lost"),
            (30, "they may be longer"),
            (0, "is not in the range"),
            ("40", "without quotes"),
        ],
    ),
    "second_exercise": Rows(
        right=[{"market": "calm", "policy": "notice"}, {"policy": "Notice", "market": "Calm"}],
        wrong=[
            ({"market": "busy", "policy": "elastic"}, "not bit for bit"),
            ({"market": "busy", "policy": "notice"}, "it ends at 1216 s"),
            ({"market": "on demand", "policy": "elastic"}, "it costs 1.55, and there is one that costs 0.62"),
            ({"market": "calm", "policy": "restart"}, "it ends at 1012 s"),
            ({"market": "cheap", "policy": "notice"}, "is no market"),
            ({"market": "calm", "policy": "wait"}, "is no policy"),
            ({"market": ["calm"], "policy": "notice"}, "is no market: give one of 'on demand'"),
            ({"market": "calm", "policy": {"notice"}}, "is no policy: give one of 'restart'"),
            ({"market": "calm"}, "is no dict with a market and a policy"),
        ],
        slow=True,
    ),
    "third_exercise": Rows(
        right=[with_handler, with_watched_scope],
        wrong=[
            (knowing_of_nothing, "steps were taken twice"),
            (saving_always, "nothing is lost, but it ends at"),
            (weights_only, "not those of the undisturbed run"),
            (handlers_in_the_loop, "60 steps were taken, and only"),
            (too_many, "there are only 12 steps to take"),
            (lambda job, directory: None, "0 steps are in the weights"),
        ],
        slow=True,
    ),
}
