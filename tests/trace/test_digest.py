"""The digest: equal for equal runs in every process, different for everything that happened differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fresh_python import run_beside_engine
from simdist.cluster import TaskId
from simdist.errors import InvalidArgumentError
from simdist.trace import Trace

PROGRAM = """
from simdist.trace import Trace
trace = Trace(seed=5)
lanes = list({f"ps:{index}" for index in range(12)})  # in the order of this process' hash seed
for lane in lanes:
    trace.names.code(lane)                            # so that name codes differ, too
for index in range(50):
    trace.span(f"worker:{index % 2}", "compute", "step", index / 7, index / 7 + 0.1, servers={"ps:0", "ps:1", "ps:2"})
    facts = {name: index for name in {"bytes", "version", "closure"}}  # in an order of its own, too
    trace.span("ps:0", "apply", "sgd", index / 7, index / 7 + 0.1, worker=f"worker:{index % 2}", **facts)
for lane in lanes:
    trace.total(lane, "bytes_sent", 8)
trace.instant("worker:0", "crash", "crash", 9.0, known={"b", "a", "c"})
trace.counter("ps:0", "queue", 1.0, 2.0)
print(trace.digest(), lanes)
"""


ROWS = 10_000


def in_a_process(hash_seed: int) -> list[str]:
    return run_beside_engine(PROGRAM, hash_seed=hash_seed).stdout.split(maxsplit=1)


def test_same_trace_in_two_processes_has_the_same_digest() -> None:
    first, second = in_a_process(1), in_a_process(2)
    assert first[1] != second[1], "the hash seeds must give different orders, or this test shows nothing"
    assert first[0] == second[0]


def test_digest_has_kept_its_value() -> None:
    trace = Trace(seed=3)
    trace.declare_lane("ps:0")
    trace.declare_lane("worker:0")
    for i in range(20):
        trace.span(f"worker:{i % 2}", "compute", "step", i / 7, i / 7 + 0.1)
        trace.span(f"worker:{i % 2}", "read", "read", i / 7, i / 7 + 0.1, bytes=8 * i)
        trace.span("ps:0", "apply", "sgd", i / 7 + 0.1, i / 7 + 0.2, worker=f"worker:{i % 2}", version=i + 1)
        trace.counter("chief:0", "queue", i / 7, i % 3)
    odd: dict[str, Any] = {"flag": True, "np": np.int64(3), "ids": (1, 2), "s": {"b", "a"}}
    trace.span("ps:0", "apply", "odd", 4.0, float(np.float32(4.3)), version=2.5, worker=None, big=2**70, **odd)
    trace.instant("worker:0", "crash", "crash of worker:0", 4.5, incarnation=0)
    trace.instant("worker:0", "observe", "x", 4.6)
    trace.total("ps:0", "bytes_sent", 100)
    trace.total("worker:0", "bytes_sent", 0.5)
    # Runs are compared with digests that were written down: a new value needs a new FORMAT and a reason.
    assert trace.digest() == "176c54ff2b04562b"


def record(**changes: Any) -> Trace:
    """A small trace with one record of every kind."""
    trace = Trace(seed=changes.get("seed", 0))
    trace.declare_lane(changes.get("declared", "worker:0"))
    trace.span(
        changes.get("lane", "worker:0"),
        changes.get("category", "compute"),
        changes.get("name", "step"),
        changes.get("start_s", 0.25),
        changes.get("end_s", 1.0),
        **changes.get("facts", {"bytes": 8, "closure": 1}),
    )
    trace.span("worker:0", "update", "push", 1.0, 1.5)
    trace.instant("worker:0", changes.get("instant", "crash"), "crash", changes.get("time_s", 2.0), incarnation=0)
    trace.counter("ps:0", changes.get("counter", "queue"), 0.5, changes.get("value", 3.0))
    trace.total("ps:0", "bytes_sent", changes.get("amount", 100))
    return trace


def test_digest_is_sixteen_hexadecimal_digits() -> None:
    digest = record().digest()
    assert len(digest) == 16
    assert int(digest, 16) >= 0
    assert record().digest() == digest


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"declared": "worker:1"},
        {"lane": "worker:1"},
        {"category": "read"},
        {"name": "push"},
        {"start_s": np.nextafter(0.25, 1)},
        {"end_s": np.nextafter(1.0, 2)},
        {"start_s": -0.0},
        {"facts": {}},
        {"facts": {"bytes": 9, "closure": 1}},
        {"facts": {"bytes": 8, "task": 1}},
        {"instant": "restart"},
        {"time_s": 2.5},
        {"counter": "staleness"},
        {"value": 4.0},
        {"amount": 101},
    ],
)
def test_any_change_changes_the_digest(change: dict[str, Any]) -> None:
    assert record(**change).digest() != record().digest()


@pytest.mark.parametrize(
    "facts",
    [
        {"closure": 1, "bytes": 8},
        {"bytes": np.int64(8), "closure": np.int32(1)},
    ],
)
def test_order_and_number_type_of_facts_do_not_matter(facts: dict[str, Any]) -> None:
    assert record(facts=facts).digest() == record().digest()


def test_name_codes_do_not_matter() -> None:
    def trace(*first: str) -> Trace:
        trace = Trace()
        for name in first:
            trace.names.code(name)
        trace.span("a", "compute", "b", 0.0, 1.0)
        trace.counter("b", "a", 0.0, 1.0)
        return trace

    assert trace().digest() == trace("unused", "b", "a").digest()


def test_names_are_not_confused_with_their_places() -> None:
    first, second = Trace(), Trace()
    first.span("a", "b", "a", 0.0, 1.0)
    second.span("b", "a", "b", 0.0, 1.0)
    assert first.digest() != second.digest()


def test_order_of_spans_matters() -> None:
    first, second = Trace(), Trace()
    for trace, lanes in ((first, "ab"), (second, "ba")):
        for lane in lanes:
            trace.span(lane, "compute", "step", 0.0, 1.0)
    assert first.digest() != second.digest()


def test_looking_changes_nothing() -> None:
    trace = record()
    before = trace.digest()
    trace.instant("worker:0", "observe", "print", 9.0, value=3)
    trace.observed()
    assert trace.digest() == before
    for log in (trace, calm := record()):
        log.instant("worker:0", "restart", "restart of worker:0", 9.5)
    assert trace.digest() == calm.digest() != before


@pytest.mark.parametrize("kind", ["span", "instant", "look"])
def test_a_run_depends_on_values_if_anything_but_a_look_comes_after_one(kind: str) -> None:
    trace = record()
    assert not trace.value_dependent
    trace.observed()
    assert not trace.value_dependent
    if kind == "span":
        trace.span("worker:0", "compute", "step", 8.0, 9.0)
    else:
        trace.instant("worker:0", "crash" if kind == "instant" else "observe", "what happened", 9.0)
    assert trace.value_dependent == (kind != "look")


def test_facts_belong_to_their_row() -> None:
    first, second = Trace(), Trace()
    for trace, facts in ((first, ({"n": 1}, {})), (second, ({}, {"n": 1}))):
        for fact in facts:
            trace.span("a", "compute", "step", 0.0, 1.0, **fact)
    assert first.digest() != second.digest()


def test_long_logs_are_written_whole() -> None:
    def trace(last: int) -> Trace:
        trace = Trace()
        for row in range(ROWS + 10):
            trace.span("a", "compute", "step", 0.0, 1.0, row=row)
        trace.span("a", "compute", "step", 0.0, 1.0, row=last)
        return trace

    assert trace(1).digest() != trace(2).digest()


def test_empty_trace_has_a_digest() -> None:
    assert Trace().digest() == Trace().digest() != Trace(seed=1).digest()


@pytest.mark.parametrize(
    "facts",
    [
        {"task": TaskId("worker", 1)},
        {"loss": float("nan")},
        {"shape": (2, 3), "ids": np.arange(3)},
        {"by_step": {1: "a", "b": 2}},
        {"text": "Ä", "raw": b"\\x00"},
    ],
)
def test_usual_facts_can_be_digested(facts: dict[str, Any]) -> None:
    assert record(facts=facts).digest() == record(facts=facts).digest() != record().digest()


def test_fact_without_a_lasting_text_raises() -> None:
    make: Callable[[], object] = object
    with pytest.raises(InvalidArgumentError, match="numbers, text, lists and dicts"):
        record(facts={"thing": make()}).digest()
