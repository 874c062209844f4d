from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from simdist.trace import Trace
from simdist.trace.plots import EMPTY_TEXT
from simdist_widgets import trace_bytes
from simdist_widgets.trace_bytes import encode, pack

DTYPES = {"f8": np.float64, "f4": np.float32, "u4": np.uint32, "u1": np.uint8}


def column(encoded: tuple[dict[str, Any], bytes], name: str) -> Any:
    header, data = encoded
    place = header["columns"][name]
    if place["dtype"] == "utf8":
        return data[place["offset"] : place["offset"] + place["length"]].decode()
    return np.frombuffer(data, DTYPES[place["dtype"]], place["length"], place["offset"])


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    trace.declare_lane("ps:0")
    trace.span("worker:0", "compute", "step", 0.1, 0.3, batch=32)
    trace.span("worker:0", "closure", "closure 0", 0.0, 0.4)
    trace.span("ps:0", "apply", "update", 0.3, 0.35, bytes_received=128)
    trace.instant("worker:0", "crash", "crash of worker:0", 0.4, incarnation=0)
    return trace


def test_rows_are_sorted_by_lane_then_start(trace: Trace) -> None:
    encoded = encode(trace)
    assert encoded[0]["lanes"] == ["ps:0", "worker:0"]
    assert column(encoded, "span_lane_first").tolist() == [0, 1, 3]
    assert column(encoded, "span_start").tolist() == [0.3, 0.0, 0.1]
    assert column(encoded, "span_duration").tolist() == pytest.approx([0.05, 0.4, 0.2])


def test_names_and_categories_are_numbers_into_tables(trace: Trace) -> None:
    encoded = encode(trace)
    names = json.loads(column(encoded, "names"))
    kinds = [kind["name"] for kind in encoded[0]["kinds"]]
    assert [names[i] for i in column(encoded, "span_name")] == ["update", "closure 0", "step"]
    assert [kinds[i] for i in column(encoded, "span_kind")] == ["apply", "closure", "compute"]
    assert [names[i] for i in column(encoded, "instant_name")] == ["crash of worker:0"]


def test_task_that_is_not_restarted_has_a_down_time_to_the_end(trace: Trace) -> None:
    trace.span("ps:0", "apply", "update", 0.5, 1.0)
    encoded = encode(trace)
    header = encoded[0]
    assert [kind["name"] for kind in header["kinds"]][-1] == "down"
    assert (header["not_restarted"], column(encoded, "span_lane_first").tolist()) == (1, [0, 2, 5])
    assert (column(encoded, "span_start")[-1], column(encoded, "span_duration")[-1]) == (0.4, pytest.approx(0.6))
    assert json.loads(column(encoded, "names"))[column(encoded, "span_name")[-1]] == "down"
    assert column(encoded, "span_fact_row").tolist()[-1] == 4
    assert column(encoded, "span_fact_text").endswith('{"until": "the end of the trace: not restarted"}')


def test_empty_trace_says_so_and_others_do_not(trace: Trace) -> None:
    assert encode(Trace())[0]["empty_text"] == EMPTY_TEXT
    assert encode(trace)[0]["empty_text"] == ""


def test_facts_follow_their_rows_through_the_sorting(trace: Trace) -> None:
    encoded = encode(trace)
    assert column(encoded, "span_fact_row").tolist() == [0, 2]
    text, ends = column(encoded, "span_fact_text"), column(encoded, "span_fact_end").tolist()
    assert [json.loads(text[a:b]) for a, b in zip([0, *ends], ends, strict=False)] == [
        {"bytes_received": 128},
        {"batch": 32},
    ]


def test_facts_beyond_the_limit_are_left_out_and_counted(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_bytes, "MOST_FACTS", 1)
    encoded = encode(trace)
    assert encoded[0]["facts_left_out"] == 1
    assert column(encoded, "span_fact_row").tolist() == [2]


def test_facts_of_any_type_become_plain_json() -> None:
    trace = Trace()
    facts = {"a": np.int32(3), "b": np.float32(0.5), "c": ("x", 1), "d": float("nan"), "e": True}
    trace.span("worker:0", "compute", "step", 0.0, 1.0, **facts)
    text = column(encode(trace), "span_fact_text")
    assert json.loads(text) == {"a": 3, "b": 0.5, "c": "('x', 1)", "d": "nan", "e": True}


def test_bounds_cover_the_run_and_begin_at_zero(trace: Trace) -> None:
    header, _ = encode(trace)
    assert (header["first_s"], header["last_s"]) == (0.0, 0.4)


def test_header_can_be_json(trace: Trace) -> None:
    header, _ = encode(trace)
    assert json.loads(json.dumps(header)) == header


def test_empty_trace_has_empty_columns() -> None:
    encoded = encode(Trace())
    assert encoded[0]["lanes"] == []
    assert column(encoded, "span_lane_first").tolist() == [0]
    assert len(column(encoded, "span_start")) == 0


def test_same_trace_gives_the_same_bytes(trace: Trace) -> None:
    assert encode(trace) == encode(trace)


def test_columns_begin_at_multiples_of_eight() -> None:
    places, data = pack({"text": b"abc", "small": np.ones(3, np.uint8), "wide": np.ones(2, np.float64)})
    assert [place["offset"] for place in places.values()] == [0, 8, 16]
    assert len(data) == 32
