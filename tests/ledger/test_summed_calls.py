"""Stacks that are only added up are not made; all others are, and every number is that of single calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.ledger.ledger import Ledger
from simdist.ledger.replica_lane import stacks_of
from simdist.ledger.summed_calls import summed_calls
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.lane_sums import adds_lanes
from simdist.program.values import Aval, Bundle

LANES = 3
W, X, GRADIENT, LOSS = Aval((2, 2), "float32"), Aval((4, 2), "float32"), Aval((2, 2), "float32"), Aval((), "float32")
GRAD = kernel_of("gradient of a lane", lambda w, x: [x.T @ (x @ w), (x @ w).sum()], [W, X])
ADDED = kernel_of("added up", lambda stack: [stack.sum(0) * 0.5], [Aval((LANES, 2, 2), "float32")])
MOVE = kernel_of("move", lambda w, g: [w - 0.01 * g], [W, GRADIENT])
LOOK = kernel_of("look", lambda stack: [stack[1] * 2], [Aval((LANES, 2, 2), "float32")])
adds_lanes(ADDED, 0.5)


class Story:
    """Steps of three replicas: a gradient each, their sum, and an update."""

    def __init__(self, numerics: str) -> None:
        self.ledger = Ledger(numerics)
        self.w = Bundle.of([np.eye(2, dtype=np.float32)])
        self.rng = np.random.default_rng(0)
        self.kept: list[Bundle] = []
        self.losses: list[Bundle] = []

    def call(self, kernel: Kernel, *inputs: Bundle) -> Bundle:
        site = self.ledger.site(kernel, [bundle.avals for bundle in inputs], [kernel.out_avals])
        return self.ledger.call(site, inputs)[0]

    def step(self, looks: bool = False, keeps: bool = False) -> None:
        site, lanes = self.ledger.site(GRAD, [(W,)], [(GRADIENT,), (LOSS,)]), self.ledger.lanes(LANES)
        made = [lanes.call(lane, site, [self.w], None, (self.rng.random((4, 2), np.float32),)) for lane in range(LANES)]
        (stack,) = stacks_of([gradient for gradient, _ in made])
        assert stack is not None
        total = self.call(ADDED, stack)
        self.kept += [self.call(LOOK, stack)] if looks else []
        self.kept += [made[1][0]] if keeps else []
        self.losses += [loss for _, loss in made]
        self.w = self.call(MOVE, self.w, total)

    def found(self) -> dict[int, dict[int, int]]:
        pending = self.ledger.pending
        return summed_calls(pending.entries, len(pending.entries), self.ledger.branches, pending.files)

    def look(self) -> list[np.ndarray]:
        return [np.asarray(self.ledger.arrays(bundle)[0]) for bundle in (*self.losses, *self.kept, self.w)]


def check(story: Story, **options: Any) -> None:
    plain = Story("loop")
    for _ in range(4):
        plain.step(**options)
    for found, wanted in zip(story.look(), plain.look(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_call_whose_stack_is_only_added_up_adds_it_up() -> None:
    story = Story("vmap")
    for _ in range(4):
        story.step()
    assert story.found() == {0: {0: 1}, 3: {0: 4}, 6: {0: 7}, 9: {0: 10}}
    check(story)


@pytest.mark.parametrize("option", ["looks", "keeps"])
def test_a_stack_that_is_read_or_held_by_others_is_made(option: str) -> None:
    story = Story("vmap")
    for _ in range(4):
        story.step(**{option: True})
    assert story.found() == {}
    check(story, **{option: True})


def test_a_loss_that_is_read_first_brings_the_sum_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story, called = Story("vmap"), list[str]()
    original = Kernel.__call__
    monkeypatch.setattr(Kernel, "__call__", lambda self, *arrays: (called.append(self.name), original(self, *arrays))[1])
    for _ in range(4):
        story.step()
        story.ledger.arrays(story.losses[-1])
    monkeypatch.undo()
    assert called.count(f"{GRAD.name} of {LANES} replicas, added up") == 4
    assert not {f"{GRAD.name} of {LANES} replicas", ADDED.name} & set(called)
    check(story)


def test_an_interrupt_between_two_steps_keeps_what_is_computed() -> None:
    story = Story("vmap")
    for _ in range(4):
        story.step()
    ledger = story.ledger
    ledger.plans.batches.run(list(ledger.entries), ledger.branches, ledger.pending, InterruptedAfter(2))
    assert 0 < ledger.computed < 12
    check(story)


class InterruptedAfter(list[BaseException]):
    """Becomes true after some looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def __bool__(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def trained(numerics: str) -> tuple[list[float], list[np.ndarray], list[str]]:
    """Losses and weights of a fit, and the kernels that were called."""
    names: list[str] = []
    original = Kernel.__call__
    keras.utils.set_random_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", lambda self, *arrays: (names.append(self.name), original(self, *arrays))[1])
        strategy = sd.MirroredStrategy(4, cluster=sd.Cluster({"worker": 1}, numerics=numerics))
        with strategy.scope():
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
            model.compile(keras.optimizers.Adam(0.01), "mse")
        rng = np.random.default_rng(0)
        x, y = rng.random((64, 6), np.float32), rng.random((64, 1), np.float32)
        history = model.fit(x, y, batch_size=16, epochs=2, verbose=0, shuffle=False)
        return history.history["loss"], [np.asarray(weight) for weight in model.get_weights()], names


def test_a_fit_adds_up_its_gradients_where_they_are_made() -> None:
    (losses, weights, names), (close_to, wanted, _) = trained("vmap"), trained("deferred")
    assert sum(name.endswith("replicas, added up") for name in names) == 8
    assert not any(name.startswith("all_reduce gradients") for name in names)
    np.testing.assert_allclose(losses, close_to, rtol=1e-5)
    for found, expected in zip(weights, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("numbers", [[60_000, 60_000, -60_000, -60_000], [2048, 1, 1, -2048]], ids=["too large together", "digits"])
def test_sums_of_half_precision_keep_the_order_of_the_schedule(numbers: list[int]) -> None:
    def total(numerics: str) -> list[float]:
        strategy = sd.MirroredStrategy(4, cluster=sd.Cluster({"worker": 1}, numerics=numerics))
        data = sd.Dataset.from_tensor_slices(np.array(numbers, np.float32)).batch(4)

        @sd.function
        def step(batches: Any) -> Any:
            return strategy.run(lambda x: sd.get_replica_context().all_reduce("sum", x.astype("float16")), args=(next(batches),))

        return np.asarray(strategy.experimental_local_results(step(iter(strategy.distribute_dataset(data))))[0]).tolist()

    assert total("vmap") == total("loop") and np.isfinite(total("loop")).all()
