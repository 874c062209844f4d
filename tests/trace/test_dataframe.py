"""The table of spans."""

from __future__ import annotations

import sys

import pytest

from simdist.trace import Trace


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    trace.span("worker:0", "compute", "step", 0.0, 0.5, bytes=8)
    trace.span("ps:0", "apply", "sgd", 0.5, 2.0)
    return trace


def test_table_has_one_row_for_each_span(trace: Trace) -> None:
    pytest.importorskip("pandas")
    table = trace.to_dataframe()
    assert list(table.columns) == ["lane", "category", "name", "start_s", "end_s", "duration_s", "facts"]
    assert table["lane"].tolist() == ["worker:0", "ps:0"]
    assert table["duration_s"].tolist() == [0.5, 1.5]
    assert table["facts"].tolist() == [{"bytes": 8}, {}]


def test_empty_trace_gives_an_empty_table() -> None:
    pytest.importorskip("pandas")
    assert len(Trace().to_dataframe()) == 0


def test_missing_pandas_says_how_to_get_it(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs the package pandas: pip install 'simdist\[lab\]'"):
        trace.to_dataframe()
