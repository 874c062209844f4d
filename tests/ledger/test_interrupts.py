"""Whatever ends a computation early, and wherever: another look gives the bits of a run that nothing disturbed."""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import signal
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import simdist as sd
from sampling import covering, examples, sampled
from simdist.errors import FailedPreconditionError
from simdist.ledger import computing, plans, replay
from simdist.ledger.batched import Batches
from simdist.ledger.ledger import Ledger
from simdist.ledger.replay import Machine
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval, Bundle

AVAL = Aval((3,), "float32")
ONE = (AVAL,)
GRADIENT = kernel_of("gradient", lambda v, k: (v * 0.5 - k,), [AVAL, AVAL])
APPLY = kernel_of("apply", lambda v, g: (v - g * 0.3,), [AVAL, AVAL])
PLANS = ["loop", "deferred", "replay", "vmap", "shard_map"]
WORKERS, ROUNDS = 3, 4


class Stopped(BaseException):
    """Neither an error nor Ctrl-C."""


class Disturbance:
    """Does something at the n-th compiled stretch, once."""

    def __init__(self, number: int, act: Callable[[Callable[[], Any], Any], Any]) -> None:
        self.left = number
        self.act = act
        self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self.calls += 1
            self.left -= 1
            return self.act(lambda: jax.block_until_ready(function(*arguments)), arguments) if self.left == -1 else function(*arguments)

        return run


def raising(error: type[BaseException]) -> dict[str, Callable[[Callable[[], Any], Any], Any]]:
    def before(_function: Callable[[], Any], _arguments: Any) -> Any:
        raise error

    def inside(function: Callable[[], Any], _arguments: Any) -> Any:
        function()
        raise error

    def donated(_function: Callable[[], Any], arguments: Any) -> Any:
        if isinstance(arguments[0], list):  # the stacks of the scan, which it may overwrite
            for leaf in jax.tree.leaves(arguments[0]):
                leaf.delete()
        raise error

    return {f"{place.__name__}-{error.__name__}": place for place in (before, inside, donated)}


def signal_before(function: Callable[[], Any], _arguments: Any) -> Any:
    signal.raise_signal(signal.SIGINT)
    return function()


def signal_after(function: Callable[[], Any], _arguments: Any) -> Any:
    results = function()
    signal.raise_signal(signal.SIGINT)
    return results


RAISED = {**raising(KeyboardInterrupt), **raising(MemoryError), **raising(Stopped)}
SIGNALS = {"signal-before": signal_before, "signal-after": signal_after}


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Disturbance]]:
    """Short chunks and trials, and a way to disturb what is compiled; stories of one shape share what is compiled."""
    for module, name, value in [(replay, "CHUNK", 5), (plans, "TRIAL", 4), (plans, "REPLAY_FROM", 10)]:
        monkeypatch.setattr(module, name, value)
    program, call, batched_call, compiled = Machine._program, Kernel.__call__, Batches._call, dict[Any, Any]()
    current = [Disturbance(-1, signal_before)]

    def shared(machine: Machine, branches: Any, files: Any) -> Any:
        key = (tuple((branch.site.kernel, branch.site.reads) for branch in branches), tuple((f.avals, f.capacity) for f in files.values()))
        if key not in compiled:
            compiled[key] = program(machine, branches, files)
        return current[0].around(compiled[key][0]), compiled[key][1]

    monkeypatch.setattr(Machine, "_program", shared)
    monkeypatch.setattr(Kernel, "__call__", lambda kernel, *given: current[0].around(call.__get__(kernel))(*given))
    monkeypatch.setattr(Batches, "_call", lambda batches, kernel, given: current[0].around(batched_call.__get__(batches))(kernel, given))

    def start(number: int = -1, act: Any = signal_before) -> Disturbance:
        current[0] = Disturbance(number, act)
        return current[0]

    yield start
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


BATCHED: dict[str, Any] = {}


class Training:
    """Workers that read a variable, and whose gradients change it; and a variable that has nothing to do with it."""

    def __init__(self, numerics: str) -> None:
        self.ledger = Ledger(numerics)
        self.ledger.plans.batches._batched = BATCHED.setdefault(numerics, {})
        self.gradient = self.ledger.site(GRADIENT, [ONE], [ONE])
        self.apply = self.ledger.site(APPLY, [ONE, ONE], [ONE])
        self.v, self.other = (Bundle.of([np.full(3, start, np.float32)]) for start in (1, 2))
        self.read = [self.v] * WORKERS
        self.gradients = [self.v] * WORKERS

    def note(self, rounds: int = ROUNDS) -> None:
        for place in range(rounds):
            for worker in range(WORKERS):
                fed = np.full(3, place + 0.1 * worker, np.float32)
                (self.gradients[worker],) = self.ledger.call(self.gradient, (self.read[worker],), None, (fed,))
            for worker in range(WORKERS):
                (self.v,) = self.ledger.call(self.apply, (self.v, self.gradients[worker]))
                self.read[worker] = self.v
            (self.other,) = self.ledger.call(self.apply, (self.other, self.read[0]))

    def look(self) -> list[bytes]:
        bundles = [self.gradients[1], self.v, *self.read, *self.gradients, self.other]
        return [np.asarray(self.ledger.arrays(bundle)[0]).tobytes() for bundle in bundles]

    def disturbed(self) -> type[BaseException] | None:
        """What ends a look."""
        try:
            self.look()
        except (Stopped, KeyboardInterrupt, MemoryError) as error:
            return type(error)
        return None


def undisturbed(numerics: str, looks: int = 1) -> list[bytes]:
    training, found = Training(numerics), list[bytes]()
    for _ in range(looks):
        training.note()
        found = training.look()
    return found


CASES = [
    (plan, kind) for plan in PLANS for kind in [*RAISED, *SIGNALS] if plan != "shard_map" or kind in ("inside-MemoryError", "signal-after")
]


@pytest.mark.parametrize(("numerics", "kind"), sampled(CASES, covering(CASES)))
def test_look_after_any_interruption_gives_the_bits_of_an_undisturbed_run(numerics: str, kind: str, disturb: Any) -> None:
    disturb()
    expected, more = undisturbed(numerics), undisturbed(numerics, 2)
    for number in itertools.count():
        training = Training(numerics)
        training.note()
        disturbance = disturb(number, {**RAISED, **SIGNALS}[kind])
        training.disturbed()
        disturb()
        assert training.look() == expected
        training.note()
        assert training.look() == more
        assert training.ledger.entries == []
        if disturbance.left >= 0:
            assert number > 5
            break


@pytest.mark.parametrize("numerics", PLANS)
def test_ctrl_c_waits_for_the_end_of_what_is_computed_and_nothing_is_computed_twice(numerics: str, disturb: Any) -> None:
    training = Training(numerics)
    training.note()
    entries = len(training.ledger.entries)
    disturbance = disturb(3, signal_before)
    assert training.disturbed() is KeyboardInterrupt
    done = training.ledger.computed
    assert 0 < done == entries - len(training.ledger.entries)
    training.look()
    assert training.ledger.computed == entries
    if numerics == "loop":
        assert disturbance.calls == entries


@pytest.mark.parametrize("kind", RAISED)
def test_step_that_fails_or_is_interrupted_changes_nothing_in_an_eager_ledger(kind: str, disturb: Any) -> None:
    disturb()
    expected = undisturbed("eager")
    training = Training("eager")
    training.note(3)
    before, computed = training.look(), training.ledger.computed
    disturb(0, RAISED[kind])
    with pytest.raises((Stopped, KeyboardInterrupt, MemoryError)):
        training.note(1)
    assert training.look() == before
    assert training.ledger.computed == computed
    assert undisturbed("eager") == expected


def test_interrupted_trial_marks_no_kernel(disturb: Any) -> None:
    training = Training("replay")
    for number in range(5):
        training = Training("replay")
        training.note()
        disturb(number, signal_after)
        assert training.disturbed() is KeyboardInterrupt
        assert not training.ledger.plans.refuted
        assert not training.ledger.plans.proved
        disturb()
        training.look()
        assert not training.ledger.plans.refuted
    assert training.ledger.plans.proved == {GRADIENT, APPLY}


def test_scan_that_fails_is_computed_call_by_call(disturb: Any) -> None:
    training = Training("replay")
    training.note()
    disturb(6, RAISED["donated-MemoryError"])
    assert training.disturbed() is None
    disturb()
    assert training.look() == undisturbed("eager")


def test_look_while_somebody_traces_can_be_interrupted(disturb: Any) -> None:
    training = Training("loop")
    training.note()

    def traced(x: Any) -> Any:
        disturb(4, signal_after)
        assert training.disturbed() is KeyboardInterrupt
        return x + training.ledger.arrays(training.v)[0]

    found = jax.jit(traced)(np.zeros(3, np.float32))
    assert np.asarray(found).tobytes() == np.asarray(training.ledger.arrays(training.v)[0]).tobytes()


@pytest.mark.parametrize("numerics", ["loop", "replay", "vmap"])
def test_error_of_a_kernel_comes_again_and_leaves_other_values_alone(numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What pytest keeps of the log holds the frames of the error, and so the bundles.
    monkeypatch.setattr(logging.getLogger("jax._src.callback"), "disabled", True)

    def refuse(_: Any) -> Any:
        raise ValueError("no number today")

    failing = kernel_of(f"failing {numerics}", lambda v: (jax.pure_callback(refuse, AVAL_SHAPE, v, vmap_method="sequential"),), [AVAL])
    training = Training(numerics)
    training.note(2)
    (bad,) = training.ledger.call(training.ledger.site(failing, [ONE], [ONE]), (training.v,), None, (), ("worker:0", 7, 1.5))
    (worse,) = training.ledger.call(training.apply, (training.v, bad))
    training.note(2)
    (fine,) = training.ledger.call(training.apply, (training.v, training.other))
    for bundle in (bad, worse, bad):
        with pytest.raises(jax.errors.JaxRuntimeError, match="no number today") as caught:
            training.ledger.arrays(bundle)
        if numerics != "vmap":
            assert caught.value.__notes__[-1] == f"while computing failing {numerics} of worker:0, step 7, 1.500000 s"
    twin = Training("loop")
    twin.note(2)
    twin.note(2)
    np.testing.assert_allclose(np.frombuffer(b"".join(training.look()), "f4"), np.frombuffer(b"".join(twin.look()), "f4"), rtol=1e-6)
    training.ledger.arrays(fine)
    with pytest.raises(jax.errors.JaxRuntimeError, match="no number today"):
        training.ledger.flush()
    del bad, worse, bundle, caught
    gc.collect()  # the frames of the errors held them too
    training.ledger.flush()
    assert training.ledger.entries == []


AVAL_SHAPE = jax.ShapeDtypeStruct((3,), np.float32)


def test_look_from_within_a_kernel_is_refused_and_changes_nothing(disturb: Any) -> None:
    training = Training("loop")
    training.note()
    refused: list[str] = []

    def nested(function: Callable[[], Any], _arguments: Any) -> Any:
        with pytest.raises(FailedPreconditionError, match="while numbers are being computed") as caught:
            training.ledger.arrays(training.other)
        refused.append(str(caught.value))
        return function()

    disturb(4, nested)
    found = training.look()
    assert len(refused) == 1
    assert found == undisturbed("loop")


def test_full_ledger_leaves_the_rest_for_later_when_somebody_notes_a_ctrl_c(disturb: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing, "FULL", ROUNDS * (2 * WORKERS + 1))
    training, noted = Training("loop"), list[int]()
    outer = signal.signal(signal.SIGINT, lambda number, _frame: noted.append(number))
    try:
        disturb(4, signal_after)
        training.note()
    finally:
        signal.signal(signal.SIGINT, outer)
    assert noted == [signal.SIGINT]
    assert training.ledger.computed == 5
    disturb()
    assert training.look() == undisturbed("loop")


@pytest.mark.parametrize("numerics", ["deferred", "loop", "replay", "vmap"])
def test_no_update_is_lost_when_reading_a_variable_is_interrupted(numerics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "TRIAL", 4)
    cluster = sd.Cluster({"worker": 2, "ps": 1}, numerics=numerics)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(np.ones(3, np.float32), name="v")

    @sd.function
    def step() -> None:
        v.assign_add(np.ones(3, np.float32))

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(30):
        coordinator.schedule(step)
    coordinator.join()
    ledger = cluster.world.ledger
    compute, calls = ledger.plans.branches[0].site.kernel.jitted, [0]

    def interrupted(*arrays: Any) -> Any:
        calls[0] += 1
        results = compute(*arrays)
        if calls[0] == 3:
            signal.raise_signal(signal.SIGINT)
        return results

    monkeypatch.setattr(ledger.plans.branches[0].site.kernel, "jitted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        v.numpy()
    assert len(ledger.entries) < 30
    np.testing.assert_array_equal(v.numpy(), [31, 31, 31])


STEPS = st.lists(
    st.tuples(st.sampled_from(["note", "note", "look", "other", "flush", "drop"]), st.integers(0, 40)), min_size=2, max_size=12
)


def told(numerics: str, steps: list[tuple[str, int]], disturb: Any, act: Any = None) -> list[bytes]:
    training = Training(numerics)
    for kind, number in steps:
        disturb(*(() if act is None else (number % 7, act)))
        with contextlib.suppress(Stopped, KeyboardInterrupt, MemoryError):
            if kind == "note":
                training.note(1)
            elif kind == "look":
                training.ledger.arrays(training.read[number % WORKERS])
            elif kind == "other":
                training.ledger.arrays(training.other)
            elif kind == "flush":
                training.ledger.flush()
            else:
                training.gradients[number % WORKERS] = training.read[number % WORKERS] = training.v
    disturb()
    return training.look()


@pytest.mark.parametrize("numerics", ["loop", "vmap", "replay"])
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, kind=st.sampled_from(sorted({**RAISED, **SIGNALS})))
def test_any_story_with_any_interruptions_has_the_bits_of_an_undisturbed_one(numerics: str, steps: Any, kind: str, disturb: Any) -> None:
    expected = told(numerics, steps, disturb)
    found = told(numerics, steps, disturb, {**RAISED, **SIGNALS}[kind])
    if numerics == "vmap":  # batches of other sizes: nearly the same bits
        np.testing.assert_allclose(np.frombuffer(b"".join(found), "f4"), np.frombuffer(b"".join(expected), "f4"), rtol=1e-5)
    else:
        assert found == expected
