"""Calls side by side: each by a thread of its own, with the results and errors of calls one after the other."""

from __future__ import annotations

import os
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import pytest

from fresh_python import run_beside_engine
from simdist.ledger import side_by_side
from simdist.ledger.side_by_side import MOST_CORES, called, num_cores


def test_results_stand_in_the_order_of_the_calls() -> None:
    assert called([lambda number=number: number * number for number in range(5)]) == ([0, 1, 4, 9, 16], None)
    assert called([lambda: "alone"]) == (["alone"], None)


def test_calls_go_on_at_the_same_time() -> None:
    met = threading.Barrier(3)
    results, error = called([lambda: met.wait(timeout=60)] * 3)
    assert sorted(results) == [0, 1, 2]
    assert error is None, "each has waited for the others"


def test_first_call_is_made_by_the_caller() -> None:
    results, _ = called([threading.get_ident, threading.get_ident])
    assert results[0] == threading.get_ident() != results[1]


def test_first_error_in_the_order_of_the_calls_is_given_when_all_have_ended() -> None:
    ended: list[int] = []
    both_failed = threading.Barrier(2)

    def fails(number: int) -> Any:
        both_failed.wait(timeout=60)
        raise ValueError(f"call {number}")

    results, error = called([lambda: "first", lambda: fails(1), lambda: fails(2), lambda: ended.append(3)])
    assert results == ["first"]
    assert str(error) == "call 1"
    assert ended == [3]


def test_settings_of_jax_for_the_caller_alone_hold_for_all_calls() -> None:
    def kind() -> Any:
        return jax.numpy.zeros(()).dtype.name, jax.config.jax_default_matmul_precision

    with jax.enable_x64(True), jax.default_matmul_precision("float32"):
        assert called([kind, kind]) == ([("float64", "float32")] * 2, None)
    assert called([kind, kind]) == ([("float32", None)] * 2, None)


def test_a_context_that_changes_no_compiled_code_holds_for_all_calls() -> None:
    divided = jax.jit(lambda x: x / x)

    def call() -> Any:
        return divided(jax.numpy.zeros(3))

    assert called([call, call])[1] is None
    with jax.debug_nans(True):
        results, error = called([lambda: "first", call])
    assert results == ["first"]
    assert isinstance(error, FloatingPointError)


def test_calls_for_which_there_is_no_thread_are_made_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    one = ThreadPoolExecutor(1)
    first = [one.submit]

    def submit(call: Any) -> Any:
        if not first:
            raise RuntimeError("can't start new thread")
        return first.pop()(call)

    monkeypatch.setattr(one, "submit", submit)
    monkeypatch.setattr(side_by_side, "_threads", lambda: one)
    results, error = called([threading.get_ident] * 4)
    assert [result == threading.get_ident() for result in results] == [True, False, True, True]
    assert error is None
    one.shutdown()


def test_calls_are_made_while_python_ends() -> None:
    program = """
        import atexit
        from simdist.ledger.side_by_side import called
        atexit.register(lambda: print(called([lambda: 1, lambda: 2, lambda: 3])))
        print(called([lambda: 1, lambda: 2]))
    """
    ended = run_beside_engine(textwrap.dedent(program))
    assert ended.stdout.splitlines() == ["([1, 2], None)", "([1, 2, 3], None)"], ended.stderr


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not say which cores a process may use")
def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, expected in ((1, 1), (6, 6), (500, MOST_CORES)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        num_cores.cache_clear()
        assert num_cores() == expected
    monkeypatch.setattr(jax, "default_backend", lambda: "cuda")
    num_cores.cache_clear()
    assert num_cores() == 1, "an accelerator finds out by itself"
    num_cores.cache_clear()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """It has none of its parent's: a call that is given to one of those would never be made."""
    program = """
        import os, signal
        from simdist.ledger.side_by_side import called
        called([lambda: 1, lambda: 2])
        child = os.fork()
        if not child:
            signal.alarm(20)  # which ends a child that waits for ever
            os._exit(len(called([lambda: 1, lambda: 2])[0]))  # one call for a thread that is not there
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    ended = run_beside_engine(textwrap.dedent(program))
    assert ended.stdout.split() == ["2"], ended.stderr
