"""The same stories with lists of replicas in numpy: what steps mean, with nothing of how they are run.

Each replica has a value of every variable. Gradients are in closed form; SGD and Adam as Keras documents them, in float64, with the sum of
the gradients of all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import simdist as sd
from tests.properties.synchronous_stories import StepError, Story

__all__ = ["PlainStory"]

RATE = 0.01
Arrays = list[np.ndarray]


class PlainVariable:
    """One value for each replica."""

    def __init__(self, value: np.ndarray, replicas: int) -> None:
        self.values: Arrays = [np.array(value, np.float64) for _ in range(replicas)]
        self.moments = np.zeros_like(self.values[0]), np.zeros_like(self.values[0])

    def numpy(self) -> np.ndarray:
        return self.values[0]

    def assign(self, value: np.ndarray) -> None:
        self.values = [np.array(value, np.float64) for _ in self.values]


class PlainStory(Story):
    """A story whose steps are numpy; the strategy gives it the elements of the dataset only."""

    def __init__(self, seed: int) -> None:
        super().__init__("eager", seed, without={"draw"})
        self.plain = {name: PlainVariable(getattr(self, name).numpy(), self.replicas) for name in ("w", "b", "table")}
        self.w, self.b, self.table = self.plain.values()  # type: ignore[assignment]
        self.is_adam = "Adam" in type(self.optimizer.wrapped).__name__
        self.updates = self.counted = 0
        self.mean_of_all = np.ones(4)
        self.totals: Arrays = [np.zeros(4) for _ in range(self.replicas)]
        self.errors = [0.0, 0]

    def step(self, kind: str) -> Callable[[Any], Any]:
        return getattr(self, f"plain_{kind}")

    def argument(self, how: str) -> Any:
        found = super().argument(how)
        return found if isinstance(found, list) else self.parts(found)

    def parts(self, value: Any) -> Arrays:
        """The value of each replica."""
        if isinstance(value, np.ndarray):
            return [value.astype(np.float64)] * self.replicas
        return [np.asarray(part, np.float64) for part in self.strategy.local_results(value)]

    def mean_over(self, x: np.ndarray) -> Any:
        """The mean; the last elements of an epoch may leave a replica without rows."""
        with np.errstate(invalid="ignore"):
            return x.sum() / np.float64(x.size)

    def reduced(self, value: Any, how: str) -> Any:
        return sum(value) / (len(value) if how == "mean" else 1)

    def see(self, value: Any) -> None:
        self.seen += value

    # -- the steps ------------------------------------------------------------------------------------------------

    def apply(self, gradients: dict[str, Sequence[np.ndarray]]) -> None:
        """Change variables by the sum of the gradients of all replicas."""
        self.updates += 1
        step = self.updates
        for name, parts in gradients.items():
            gradient, variable = sum(parts), self.plain[name]
            if self.is_adam:
                first, second = variable.moments
                first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
                variable.moments = first, second
                change = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * first / (np.sqrt(second) + 1e-7)
            else:
                change = RATE * gradient
            variable.values = [value - change for value in variable.values]

    def plain_train(self, xs: Arrays) -> Arrays:
        w, b = self.plain["w"].values, self.plain["b"].values
        outs = [x @ w[r] + b[r] for r, x in enumerate(xs)]
        self.apply({"w": [x.T @ out / 50 for x, out in zip(xs, outs, strict=True)], "b": [out.sum(0) / 50 for out in outs]})
        return [(out**2).sum() / 100 for out in outs]

    def plain_train_one(self, xs: Arrays) -> Arrays:
        table, gradients, losses = self.plain["table"].values, Arrays(), Arrays()
        for r, x in enumerate(xs):
            losses.append((table[r][:3] * x.sum(0)).sum() / 100)
            gradients.append(np.zeros_like(table[r]))
            gradients[-1][:3] = x.sum(0) / 100
        self.apply({"table": gradients})
        return losses

    def plain_train_rows(self, xs: Arrays) -> Arrays:
        table, w = self.plain["table"].values, self.plain["w"].values
        ids = np.arange(7) * 13 % len(table[0])
        losses: Arrays = []
        gradients: dict[str, Arrays] = {"table": [], "w": []}
        for r in range(self.replicas):
            rows = table[r][ids]
            losses.append((rows @ w[r]).sum() / 100)
            gradients["table"].append(np.zeros_like(table[r]))
            np.add.at(gradients["table"][r], ids, w[r].sum(1) / 100)
            gradients["w"].append(np.repeat(rows.sum(0)[:, None], 4, 1) / 100)
        self.apply(gradients)
        return [loss + x.sum() for loss, x in zip(losses, xs, strict=True)]

    def plain_count(self, xs: Arrays) -> Arrays:
        self.counted += 1
        for r, x in enumerate(xs):
            self.totals[r] = self.totals[r] + x.sum(0)
            self.errors[0] += ((x - x @ self.plain["w"].values[r]) ** 2).mean(-1).sum()
            self.errors[1] += len(x)
        return list(map(self.mean_over, xs))

    def plain_differ(self, xs: Arrays) -> Arrays:
        return [x * (1 + r) + self.plain["b"].values[r] for r, x in enumerate(xs)]

    def plain_collect(self, xs: Arrays) -> Arrays:
        sums = np.stack([x.sum(0) for x in xs])
        return [sums.sum(0) * sums.mean(0)] * self.replicas

    def plain_assign(self, xs: Arrays) -> Arrays:
        self.plain["b"].values = [np.clip(x.sum(0) / 10, -1, 1) for x in xs]
        return [value.sum() for value in self.plain["b"].values]

    def plain_average(self, xs: Arrays) -> Arrays:
        self.mean_of_all = np.mean([self.mean_of_all * 0.5 + x.sum(0) for x in xs], axis=0)
        return [self.mean_of_all.sum()] * self.replicas

    def plain_merge(self, xs: Arrays) -> Arrays:
        self.mean_of_all = self.mean_of_all + sum(self.mean_over(x) + b for x, b in zip(xs, self.plain["b"].values, strict=True))
        return [x.sum() for x in xs]

    def plain_several(self, xs: Arrays) -> Arrays:
        for _ in range(2):
            self.plain_train(xs)
            self.plain_count(self.plain_differ(xs))
        return self.plain_train_one(xs)

    def plain_fail(self, xs: Arrays) -> Arrays:
        raise StepError

    def ending(self) -> list[Any]:
        total = sum(self.totals) / (self.replicas if self.total.aggregation == sd.VariableAggregation.MEAN else 1)
        moments = [moment for name in ("w", "b", "table") for moment in self.plain[name].moments] if self.is_adam else []
        mean = self.errors[0] / self.errors[1] if self.errors[1] else 0.0
        return [
            *(variable.numpy() for variable in self.plain.values()),
            self.counted,
            total,
            self.mean_of_all,
            mean,
            self.updates,
            RATE,
            *moments,
        ]
