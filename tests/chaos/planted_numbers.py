"""Defects of numbers, while all is counted and timed as it should be; each is a patch of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.strategies.synchronous.local_steps import LocalSteps
from simdist.variables.optimizer import Optimizer

__all__ = ["PLANTED"]

Plant = Callable[[pytest.MonkeyPatch], None]


def _of_gradients(patch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    apply_gradients = Optimizer.apply_gradients

    def changed(optimizer: Optimizer, pairs: Any, *args: Any, **options: Any) -> Any:
        return apply_gradients(optimizer, [(change(found), variable) for found, variable in pairs], *args, **options)

    patch.setattr(Optimizer, "apply_gradients", changed)


def gradients_are_no_numbers(patch: pytest.MonkeyPatch) -> None:
    """All of them are NaN."""
    _of_gradients(patch, lambda found: found * jnp.nan)


def gradients_are_halved(patch: pytest.MonkeyPatch) -> None:
    """Each step goes half of its way."""
    _of_gradients(patch, lambda found: found * 0.5)


def dropped_gradients_count_as_none(patch: pytest.MonkeyPatch) -> None:
    """Nobody stands for a replica whose gradient was dropped."""
    combined = CollectivePlans.combined

    def smaller(plans: CollectivePlans, who: Any, collective: Any, plan: Any, given: Any, scale: Any, where: Any) -> Any:
        return combined(plans, who, collective, plan, given, 1, where)

    patch.setattr(CollectivePlans, "combined", smaller)


def averages_are_halved(patch: pytest.MonkeyPatch) -> None:
    """Replicas that step alone go on from half of their average."""
    means = LocalSteps._means
    patch.setattr(LocalSteps, "_means", lambda policy, strategy: [mean * 0.5 for mean in means(policy, strategy)])


def replicas_never_average(patch: pytest.MonkeyPatch) -> None:
    """Replicas that step alone stay alone."""
    patch.setattr(LocalSteps, "after", lambda policy, strategy, programs: None)


def other_all_reduces_than_the_default_are_wrong(patch: pytest.MonkeyPatch) -> None:
    """Sums by all algorithms but recursive doubling are twice as large."""
    combined = CollectivePlans.combined

    def larger(plans: CollectivePlans, world: Any, collective: Any, plan: Any, given: Any, scale: Any, where: Any) -> Any:
        factor = 1 if plan.algorithm == "recursive doubling" else 2
        return combined(plans, world, collective, plan, given, factor * scale, where)

    patch.setattr(CollectivePlans, "combined", larger)


PLANTED: list[tuple[Plant, str]] = [
    (gradients_are_no_numbers, "servers"),
    (gradients_are_no_numbers, "backup"),
    (gradients_are_no_numbers, "local-steps"),
    (gradients_are_halved, "servers"),
    (gradients_are_halved, "backup"),
    (dropped_gradients_count_as_none, "backup"),
    (averages_are_halved, "local-steps"),
    (other_all_reduces_than_the_default_are_wrong, "elastic"),
    (other_all_reduces_than_the_default_are_wrong, "local-steps"),
    (replicas_never_average, "local-steps"),
]
"""Each with a workload that shows it."""
