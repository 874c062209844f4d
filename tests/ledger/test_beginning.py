"""Long calls are begun while the schedule goes on; short ones wait, and the numbers are those that they would have later."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.ledger import computing, plans
from simdist.ledger.call_by_call import CallByCall
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval, Bundle

SHORT, LONG = Aval((3,), "float32"), Aval((plans.LONG_BYTES // 4 + 1,), "float32")
NUMERICS = ["deferred", "loop", "vmap"]


@pytest.fixture(autouse=True)
def begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "BEGIN_BYTES", 1)


def noted(numerics: str, aval: Aval) -> tuple[Ledger, Bundle]:
    """A ledger, and what one call gives that was noted there: twice as much as nothing but ones."""
    ledger, kernel = Ledger(numerics), kernel_of("twice", lambda a: (a + a,), [aval])
    site = ledger.site(kernel, [(aval,)], [(aval,)])
    return ledger, ledger.call(site, [Bundle.of([np.ones(aval.shape, np.float32)])])[0]


@pytest.mark.parametrize("numerics", NUMERICS)
def test_a_long_call_is_begun_and_has_its_numbers(numerics: str) -> None:
    ledger, made = noted(numerics, LONG)
    ledger.begin()
    assert (len(ledger.entries), ledger.computed) == (0, 1)
    assert set(np.asarray(ledger.arrays(made)[0]).tolist()) == {2.0}


def test_long_calls_are_begun_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "BEGIN_BYTES", 3 * plans.LONG_BYTES)
    ledger, kernel = Ledger("deferred"), kernel_of("twice", lambda a: (a + a,), [LONG])
    site, waiting = ledger.site(kernel, [(LONG,)], [(LONG,)]), list[int]()
    made = Bundle.of([np.ones(LONG.shape, np.float32)])
    for _ in range(7):
        (made,) = ledger.call(site, [made])
        ledger.begin()
        waiting.append(len(ledger.entries))
    assert waiting == [1, 2, 0, 1, 2, 0, 1]
    assert np.asarray(ledger.arrays(made)[0])[0] == 2.0**7


@pytest.mark.parametrize("numerics", [*NUMERICS, "replay"])
def test_a_short_call_waits_for_others(numerics: str) -> None:
    ledger, _ = noted(numerics, SHORT)
    ledger.begin()
    assert (len(ledger.entries), ledger.computed) == (1, 0)


def test_a_ledger_that_was_told_to_scan_waits_with_long_calls_too() -> None:
    ledger, made = noted("replay", LONG)
    ledger.begin()
    assert len(ledger.entries) == 1
    assert np.asarray(ledger.arrays(made)[0])[0] == 2.0


def test_what_nobody_can_read_is_not_begun() -> None:
    ledger, made = noted("deferred", LONG)
    del made
    ledger.begin()
    assert (len(ledger.entries), ledger.computed) == (0, 0)


def test_a_call_that_fails_where_it_is_begun_fails_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, made = noted("deferred", LONG)
    original = CallByCall.run_kernel

    def run_kernel(calls: CallByCall, *arguments: Any) -> Any:
        raise MemoryError("too large")

    monkeypatch.setattr(CallByCall, "run_kernel", run_kernel)
    ledger.begin()
    with pytest.raises(MemoryError, match="too large"):
        ledger.arrays(made)
    monkeypatch.setattr(CallByCall, "run_kernel", original)
    assert np.asarray(ledger.arrays(made)[0])[0] == 2.0


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize(("aval", "kind"), [(SHORT, np.ndarray), (LONG, jax.Array)])
def test_the_numbers_of_all_replicas_are_promises_where_calls_are_long(numerics: str, aval: Aval, kind: type) -> None:
    ledger = Ledger(numerics)
    site = ledger.site(kernel_of("sums", lambda a, b: ((a + b).sum(keepdims=True),), [aval, aval]), [(aval,)], [(Aval((1,), "float32"),)])
    lanes, shared = ledger.lanes(3), Bundle.of([np.zeros(aval.shape, np.float32)])
    made = [lanes.call(lane, site, [shared], None, (np.full(aval.shape, lane, np.float32),))[0] for lane in range(3)]
    ledger.begin()
    ledger.compute(made)
    numbers = [ledger.arrays(bundle)[0] for bundle in made]
    assert all(isinstance(number, kind) for number in numbers), "nobody waits for what takes long, to copy it to the host"
    assert [float(np.asarray(number)[0]) for number in numbers] == [lane * aval.shape[0] for lane in range(3)]


# -- the steps of synchronous strategies --------------------------------------------------------------------------------


def trained(numerics: str, long_bytes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], str, list[int]]:
    """Variables and digest of a short training of three replicas, and how many calls were computed after each of its batches."""
    monkeypatch.setattr(plans, "LONG_BYTES", long_bytes)
    cluster = sd.Cluster({"worker": 1}, numerics=numerics)
    with sd.MirroredStrategy(devices=3, cluster=cluster).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    rng, computed = np.random.default_rng(0), list[int]()
    x, y = rng.random((24, 2)).astype(np.float32), rng.random((24, 1)).astype(np.float32)
    seen = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: computed.append(_computed(cluster)))
    model.fit(x, y, batch_size=6, epochs=2, shuffle=False, verbose=0, callbacks=[seen])
    return [np.asarray(weight).tobytes() for weight in model.get_weights()], cluster.trace.digest(), computed


def _computed(cluster: sd.Cluster) -> int:
    engine: Any = cluster.engine
    return int(engine.world.ledger.computed)


@pytest.mark.parametrize("numerics", ["deferred", "loop"])
def test_steps_that_are_begun_early_have_the_bits_and_the_trace_of_late_ones(numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late, late_digest, computed_late = trained(numerics, 1 << 40, monkeypatch)
    early, early_digest, computed_early = trained(numerics, 0, monkeypatch)
    assert (early, early_digest) == (late, late_digest)
    assert computed_early[0] > 0, "the first step is begun while the second is scheduled"
    assert computed_early[2] > computed_late[2]
