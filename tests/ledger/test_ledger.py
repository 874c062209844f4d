"""The ledger against plain numpy: whatever is noted, dropped and looked at, in whatever order, by whatever plan."""

from __future__ import annotations

import gc
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.ledger import computing, plans
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle

AVAL = Aval((3,), "float32")
PAIR = (AVAL, AVAL)
ONE = (AVAL,)
ONE_OF_FIVE = (Aval((5,), "float32"),)
MIX = kernel_of("mix", lambda a, b, c, k: (a * 0.5 + b - c, c * 0.25 + k), [AVAL, AVAL, AVAL, AVAL])
SPLIT = kernel_of("split", lambda a, b: (a + 1.0, b * 0.5), [AVAL, AVAL])


def mixed(a: Any, b: Any, c: Any, k: Any) -> tuple[Any, ...]:
    half, quarter = np.float32(0.5), np.float32(0.25)
    return (a * half + b - c, c * quarter + k)


class Story:
    """Bundles of a ledger, with the numbers that numpy says they have."""

    def __init__(self, numerics: str) -> None:
        self.ledger = Ledger(numerics)
        self.mix = self.ledger.site(MIX, [PAIR, ONE], [PAIR])
        self.split = self.ledger.site(SPLIT, [PAIR], [ONE, ONE])
        rng = np.random.default_rng(0)
        self.pairs = [self._given(rng, 2), self._given(rng, 2)]
        self.ones = [self._given(rng, 1), self._given(rng, 1)]

    def _given(self, rng: np.random.Generator, count: int) -> tuple[Bundle, tuple[Any, ...]]:
        arrays = tuple(rng.random(3).astype(np.float32) for _ in range(count))
        return Bundle.of(arrays), arrays

    def step(self, kind: str, first: int, second: int) -> None:
        pair, one = self.pairs[first % len(self.pairs)], self.ones[second % len(self.ones)]
        if kind == "mix":
            fed = np.full(3, first + second, np.float32)
            (made,) = self.ledger.call(self.mix, (pair[0], one[0]), None, (fed,), ("worker:0", 0, 0.0))
            self.pairs.append((made, mixed(*pair[1], *one[1], fed)))
        elif kind == "split":
            left, right = self.ledger.call(self.split, (pair[0],))
            self.ones += [(left, (pair[1][0] + np.float32(1),)), (right, (pair[1][1] * np.float32(0.5),))]
        elif kind == "drop":
            chosen = self.pairs if len(self.pairs) > len(self.ones) else self.ones
            if len(chosen) > 1:
                del chosen[first % len(chosen)]
        elif kind == "look":
            self.check(*(pair if second % 2 else one))
        elif kind == "begin":
            with patch.object(plans, "LONG_BYTES", 0), patch.object(computing, "BEGIN_BYTES", 1):
                self.ledger.begin()
        else:
            self.ledger.flush()

    def check(self, bundle: Bundle, expected: tuple[Any, ...]) -> None:
        for array, wanted in zip(self.ledger.arrays(bundle), expected, strict=True):
            np.testing.assert_allclose(np.asarray(array), wanted, rtol=1e-6, atol=1e-6)


STEPS = st.lists(
    st.tuples(st.sampled_from(["mix", "mix", "split", "drop", "drop", "look", "begin", "flush"]), st.integers(0, 50), st.integers(0, 50)),
    max_size=40,
)


@pytest.mark.parametrize("numerics", ["deferred", "loop", "eager", "vmap", "shard_map"])
@examples(25)
@given(steps=STEPS)
def test_any_story_gives_the_numbers_of_numpy(numerics: str, steps: list[tuple[str, int, int]]) -> None:
    story = Story(numerics)
    for step in steps:
        story.step(*step)
    for bundle, expected in [*story.pairs, *story.ones]:
        story.check(bundle, expected)


@examples(5)
@given(steps=STEPS)
def test_any_story_gives_the_numbers_of_numpy_by_replay(steps: list[tuple[str, int, int]]) -> None:
    story = Story("replay")
    for step in steps:
        story.step(*step)
    for bundle, expected in [*story.pairs, *story.ones]:
        story.check(bundle, expected)


def bits(numerics: str, seed: int) -> list[bytes]:
    rng, story, seen = np.random.default_rng(seed), Story(numerics), list[bytes]()
    for _ in range(400):
        kind = str(rng.choice(["mix", "mix", "split", "drop", "drop"]))
        story.step(kind, int(rng.integers(50)), int(rng.integers(50)))
    for bundle, _ in [*story.pairs, *story.ones]:
        seen += [np.asarray(array).tobytes() for array in story.ledger.arrays(bundle)]
    assert not story.ledger.plans.refuted  # what the machine gets wrong, the trial would hide
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_replay_and_loop_have_the_bits_of_eager(seed: int) -> None:
    assert bits("replay", seed) == bits("eager", seed)
    assert bits("loop", seed) == bits("eager", seed)


def test_replay_of_wide_rows_has_the_bits_of_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdist.ledger.layout.WIDE_WORDS", 2)
    assert bits("replay", 0) == bits("eager", 0)


def test_replay_of_any_types_has_the_bits_of_eager() -> None:
    kinds = ("bool", "int8", "bfloat16", "float16", "int32", "uint32", "complex64", "float32")
    mixed_types, rng = tuple(Aval((5,), kind) for kind in kinds), np.random.default_rng(0)
    kernel = kernel_of("turned", lambda *arrays: (*(array[::-1] for array in arrays), arrays[-1] * 2), [*mixed_types])
    given, found = tuple(rng.integers(0, 2, 5).astype(aval.dtype) for aval in mixed_types), list[Any]()
    for numerics in ("replay", "eager"):
        ledger = Ledger(numerics)
        site, bundle = ledger.site(kernel, [mixed_types], [mixed_types, ONE_OF_FIVE]), Bundle.of(given)
        made = [ledger.call(site, (bundle,)) for _ in range(100)]
        found.append([np.asarray(array).tobytes() for pair in made for each in pair for array in ledger.arrays(each)])
        assert not ledger.plans.refuted
    assert found[0] == found[1]


@pytest.mark.parametrize("numerics", ["loop", "replay", "vmap", "shard_map"])
def test_kernel_that_uses_no_input_is_computed_by_every_plan(numerics: str) -> None:
    ledger = Ledger(numerics)
    twos = np.full(3, 2, np.float32)
    given = Bundle.of([twos])
    none, unused = kernel_of("none", lambda: (twos * 1,), []), kernel_of("unused", lambda a: (twos * 1,), [AVAL])
    sites = [(ledger.site(none, [], [ONE]), ()), (ledger.site(unused, [ONE], [ONE]), (given,))]
    made = [ledger.call(site, inputs)[0] for site, inputs in sites for _ in range(3)]
    ledger.flush()
    assert [np.asarray(ledger.arrays(bundle)[0]).tolist() for bundle in made] == [[2.0] * 3] * 6


@pytest.mark.parametrize("numerics", ["vmap", "shard_map"])
def test_batches_keep_no_version_that_nobody_reads_again(numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story, alive = Story(numerics), list[int]()
    batches = story.ledger.plans.batches
    single = batches.single

    def counted(*given: Any) -> Any:
        alive.append(len(jax.live_arrays()))
        return single(*given)

    monkeypatch.setattr(batches, "single", counted)
    for _ in range(60):
        story.step("mix", len(story.pairs) - 1, 0)
        del story.pairs[-2]
    story.check(*story.pairs[-1])
    assert len(alive) == 60
    assert alive[-1] <= alive[5]


def test_look_computes_only_what_it_needs() -> None:
    story = Story("deferred")
    for place in range(10):
        story.step("mix", place % 2, 0)
    story.ledger.arrays(story.pairs[-1][0])
    assert story.ledger.computed == 1
    assert len(story.ledger.entries) == 9


def test_results_that_nobody_holds_are_never_computed() -> None:
    story = Story("deferred")
    story.step("mix", 0, 0)
    story.step("split", 2, 0)
    del story.ones[2:], story.pairs[2:]
    story.step("mix", 0, 0)
    story.ledger.flush()
    assert story.ledger.computed == 1


def test_results_that_nobody_holds_are_not_computed_because_their_register_was_given_away() -> None:
    story = Story("deferred")
    story.step("split", 0, 0)
    story.step("mix", 0, 2)
    del story.ones[2:]
    story.step("split", 1, 0)  # writes the registers of the first one, which still waits
    story.check(*story.ones[-1])
    del story.pairs[2:]
    story.ledger.flush()
    assert story.ledger.computed == 1


def test_full_ledger_computes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdist.ledger.computing.FULL", 4)
    story = Story("deferred")
    for _ in range(5):
        story.step("mix", 0, 0)
    assert story.ledger.computed == 4


def test_numerics_off_gives_no_numbers() -> None:
    story = Story("off")
    story.step("mix", 0, 0)
    with pytest.raises(FailedPreconditionError, match='numerics="off"'):
        story.ledger.arrays(story.pairs[-1][0])


def test_unknown_plan_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'lazy' is not known"):
        Ledger("lazy")


def test_registers_are_used_again() -> None:
    story = Story("deferred")
    for _ in range(100):
        story.step("mix", len(story.pairs) - 1, 0)
        del story.pairs[-2]
    assert story.ledger.files[PAIR].size <= 5


def test_steps_that_are_over_hold_no_rows_whether_or_not_the_collector_comes_by() -> None:
    gc.disable()
    try:
        with sd.Cluster({"worker": 2, "ps": 1}) as cluster:
            strategy = sd.ParameterServerStrategy(cluster)
            with strategy.scope():
                v = sd.Variable(np.zeros(2), name="v")

            @sd.function
            def step() -> None:
                v.assign_add(v.value + 1.0)

            coordinator = sd.ClusterCoordinator(strategy)
            for _ in range(60):
                coordinator.schedule(step)
            coordinator.join()
            v.numpy()
            (file,) = cluster.world.ledger.files.values()
            held = file.size - len(file.free)
    finally:
        gc.enable()
    assert held <= 2
