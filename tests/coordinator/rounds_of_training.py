"""A small training under parameter servers, for tests of rounds and of servers that come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optax

import simdist as sd

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(1024, 3)).astype(np.float32)
TARGETS = FEATURES @ np.array([[1.0], [2.0], [-1.0]], np.float32) + np.float32(0.5)
PER_WORKER = 8


@dataclass
class Trained:
    """What came of a training."""

    cluster: sd.Cluster
    coordinator: sd.ClusterCoordinator
    variables: list[Any] = field(default_factory=list[Any])
    weights: dict[str, Any] = field(default_factory=dict[str, Any])
    losses: list[float] = field(default_factory=list[float])

    @property
    def applied(self) -> list[Any]:
        """The spans in which servers have applied updates."""
        return list(self.cluster.trace.spans.where(category="apply"))

    def bits(self) -> tuple[bytes, ...]:
        """All that was computed."""
        return (*(np.asarray(value).tobytes() for value in self.weights.values()), np.float32(self.losses).tobytes())


def trained(
    closures: int,
    plan: Callable[[sd.Cluster], object] | None = None,
    workers: int = 4,
    servers: int = 2,
    optimizer: Any = None,
    numerics: Any = "deferred",
    **options: Any,
) -> Trained:
    """Train a linear model, `closures` steps in all, under a strategy with these options."""
    cluster = sd.Cluster({"worker": workers, "ps": servers}, seed=0, numerics=numerics)
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        w = sd.Variable(np.zeros((3, 1), np.float32), name="w")
        b = sd.Variable(np.zeros((1,), np.float32), name="b")
        count = sd.Variable(np.float32(0.0), name="count")
        chosen = sd.Optimizer(optax.adam(0.05) if optimizer is None else optimizer)

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        ds = sd.Dataset.from_tensor_slices((FEATURES, TARGETS))
        return ds.shard(context.num_input_pipelines, context.input_pipeline_id).batch(PER_WORKER).repeat()

    @sd.function
    def step(iterator: Any) -> Any:
        x, y = next(iterator)
        loss, gradients = sd.value_and_grad(lambda: ((x @ w.value + b.value - y) ** 2).mean(), [w, b])()
        chosen.apply_gradients(zip(gradients, [w, b], strict=True))
        count.assign_add(1.0)
        return loss

    coordinator = sd.ClusterCoordinator(strategy)
    per_worker = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn))
    iterator = iter(per_worker)
    if plan is not None:
        plan(cluster)
    losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(closures)]
    coordinator.join()
    result = Trained(cluster, coordinator, [w, b, count])
    if numerics != "off":
        result.weights = {variable.name: variable.numpy() for variable in (w, b, count)}
        result.losses = [float(loss) for loss in losses]
    return result


def by_hand(rounds: int, workers: int = 4, optimizer: Any = None) -> tuple[Any, Any]:
    """The same training in plain JAX: each round averages the gradients of all workers, in their order."""
    import jax

    chosen = optax.adam(0.05) if optimizer is None else optimizer
    parts = [(FEATURES[worker::workers], TARGETS[worker::workers]) for worker in range(workers)]

    def loss_of(weights: tuple[Any, Any], x: Any, y: Any) -> Any:
        return ((x @ weights[0] + weights[1] - y) ** 2).mean()

    gradient_of = jax.jit(jax.grad(loss_of))
    weights = jax.numpy.zeros((3, 1)), jax.numpy.zeros((1,))
    states = [chosen.init(weight) for weight in weights]
    for number in range(rounds):
        chosen_rows = [
            (x[number * PER_WORKER : (number + 1) * PER_WORKER], y[number * PER_WORKER : (number + 1) * PER_WORKER]) for x, y in parts
        ]
        gradients = [gradient_of(weights, x, y) for x, y in chosen_rows]
        means = [sum(each[1:], start=each[0]) / workers for each in zip(*gradients, strict=True)]
        changed = [chosen.update(mean, state, weight) for mean, state, weight in zip(means, states, weights, strict=True)]
        weights = tuple(optax.apply_updates(weight, update) for weight, (update, _) in zip(weights, changed, strict=True))
        states = [state for _, state in changed]
    return weights


def killed(kind: str, task: str, at: float, **options: Any) -> Callable[[sd.Cluster], object]:
    """A plan with one fault."""
    return lambda cluster: getattr(cluster.faults, kind)(task, at=at, **options)


def moments(count: int, last_s: float) -> list[float]:
    """Seconds, evenly spread until the last one."""
    return [last_s * (number + 0.5) / count for number in range(count)]
