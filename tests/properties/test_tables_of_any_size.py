"""Any story of two tables under one optimizer has the bits of a loop: rows and whole tables in turns, below and above the size of a table.

The ledger keeps small variables in its register file, and large ones (tables) in buffers of their own, which updates change in place.
Programs cross from one to the other where a step reads both, where a variable is looked at in the middle, where shards differ in size, and
where other models come later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from failed_scans import scans_from_few_entries
from sampling import sampled
from simdist import keras

RULES: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "adagrad": lambda: keras.optimizers.Adagrad(0.05),
    "adam": lambda: keras.optimizers.Adam(0.01),
}
WIDTH, TABLE_BYTES = 4, 1_024
ROWS = (3, 40, 90, 800)  # far below the size of a table, just below it, above it (two shards are below), and far above
KINDS = ("rows of 0", "rows of 1", "rows of both", "all of 0", "all of 1")


@pytest.fixture(autouse=True)
def scans_from_few_entries_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with scans_from_few_entries(monkeypatch, TABLE_BYTES):
        yield


def story(numerics: str, seed: int) -> list[Any]:
    """All that can be seen of a run, the same for each plan: variables at the end and on the way, and some losses."""
    rng = random.Random(seed)
    servers, rule = rng.choice([1, 2]), rng.choice(sorted(RULES))
    strategy = sd.ParameterServerStrategy(
        sd.Cluster({"worker": 2, "ps": servers}, numerics=numerics), rng.choice([None, sd.FixedShardsPartitioner(2)])
    )
    numbers = np.random.default_rng(seed)
    with strategy.scope():
        tables = [
            sd.Variable(numbers.normal(size=(rng.choice(ROWS), WIDTH)).astype(np.float32), name=f"table_{number}") for number in range(2)
        ]
        w = sd.Variable(np.ones(WIDTH, np.float32), name="w")
        optimizer = sd.Optimizer(RULES[rule]())
        optimizer.build([*tables, w])

    def step_of(kind: str) -> Any:
        used = [table for number, table in enumerate(tables) if kind.endswith((str(number), "both"))]

        @sd.function
        def step(ids: Any) -> Any:
            def loss() -> Any:
                read = [sd.embedding_lookup(table, ids % table.shape[0]) if kind.startswith("rows") else table.value[:3] for table in used]
                return sum((rows * w.value).sum() for rows in read) + (w.value**2).sum()

            value, gradients = sd.value_and_grad(loss, [*used, w])()
            optimizer.apply_gradients(zip(gradients, [*used, w], strict=True))
            return value

        return step

    def step_of_another(size: int) -> Any:
        """The step of a model that comes later, and has bundles of another width."""
        with strategy.scope():
            v, own = sd.Variable(np.linspace(0, 1, size, dtype=np.float32)), sd.Optimizer(RULES[rule]())

        @sd.function
        def step(ids: Any) -> Any:
            value, gradients = sd.value_and_grad(lambda: ((v.value - ids.mean() / 10**6) ** 2).mean(), [v])()
            own.apply_gradients(zip(gradients, [v], strict=True))
            return value

        return step

    steps, coordinator, seen = {kind: step_of(kind) for kind in KINDS}, sd.ClusterCoordinator(strategy), list[Any]()
    for phase in range(4):
        if rng.random() < 0.4:
            steps[f"another {phase}"] = step_of_another(rng.choice([2, 50, 90, 200, 500]))
        kind, losses = rng.choice([*steps]), list[Any]()
        for _ in range(rng.choice([5, 60])):
            chosen = kind if rng.random() < 0.95 else rng.choice([*steps])
            losses.append(coordinator.schedule(steps[chosen], args=(numbers.integers(0, 10**6, 5, np.int32),)))
        coordinator.join()
        seen += coordinator.fetch(losses[:: len(losses) // 3]) if rng.random() < 0.5 else []
        seen += [w.numpy()] if rng.random() < 0.4 else []
    return [*seen, *(table.numpy() for table in tables), w.numpy()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numerics", "seed"),
    sampled([(numerics, seed) for numerics in ("deferred", "replay") for seed in range(200)], {("deferred", 15)}),
)
def test_any_story_has_the_bits_of_a_loop(numerics: str, seed: int) -> None:
    for found, expected in zip(story(numerics, seed), story("loop", seed), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
