"""Answers to the exercises of lesson 12."""

from __future__ import annotations

from typing import Any

import numpy as np
from exercise_rows import Rows

LINE = {"kind": "partition", "a": ["worker:1"], "b": ["ps:0"], "at": 0.012, "until": 0.013}
LOST = {"kind": "drop", "source": "ps:0", "target": "worker:1", "at": 0.0099, "until": 0.0109}
LATE = {"kind": "delay", "source": "ps:1", "target": "worker:0", "seconds": 25.0, "at": 0.015, "until": 0.016}


def line(**changed: Any) -> dict[str, Any]:
    return {**LINE, **changed}


ROWS = {
    "first_exercise": Rows(
        right=[23.1, 23, np.float64(22.5), 27],
        wrong=[
            (9.9, "it costs 13.1 ms"),
            (18, "killed at 18 ms, it costs 10.2 ms"),
            (30, "it costs 4.4 ms"),
            (0.0231, "killed at 0.0231 ms"),
            (36.2, "at most 36"),
            (-1, "at least 0"),
            ("23.1 ms", "without quotes"),
        ],
        slow=True,
    ),
    "second_exercise": Rows(
        right=[LINE, LOST, LATE, line(b=["ps:0", "ps:1"], one_way=True), line(at=np.float32(0.0120), until=np.float32(0.0125))],
        wrong=[
            ({"kind": "delay", "source": "ps:0", "target": "worker:1", "seconds": 0.01, "at": 0.012, "until": 0.013}, "it costs 0.0"),
            ({"kind": "crash", "task": "worker:1", "at": 0.012}, "breaks the network only"),
            (line(until=10**400), "it must have ended one millisecond after it began"),
            ({"kind": "slow", "task": "worker:1", "factor": 1e9, "at": 0.012, "until": 0.013}, "breaks the network only"),
            (line(until=0.020), "'until' is at most 'at' + 0.001"),
            (line(until=0.011), "'until' is at most 'at' + 0.001"),
            (line(at=None), "it says None as 'at'"),
            (line(until="now"), "as 'until'"),
            (
                {name: figure for name, figure in LINE.items() if name != "until"},
                "it has no 'until': give the virtual second, for example 'until'",
            ),
            (line(at=1.0, until=1.001), "it begins at 1.0 s"),
            (line(a="worker:7"), "the fault was refused"),
            (line(kind="cut"), "breaks the network only"),
            (line(kind="drop"), "the fault was refused"),
            ({"at": 0.012, "until": 0.013}, "its 'kind' is None"),
            ([LINE], "is no fault"),
            ("partition", "is no fault"),
        ],
        slow=True,
    ),
    "third_exercise": Rows(
        right=[14.7, 15, 14.1, np.float32(14.5)],
        wrong=[
            (13.1, "costs 11.6 ms"),
            (20, "a pause of 20 ms costs 18.5 ms"),
            (0, "a pause of 0 ms costs 0.0 ms"),
            (1e-300, "a pause of 1e-300 ms costs 0.0 ms"),
            (6000, "at most 5,000"),
            (-3, "at least 0"),
            ("14.7", "without quotes"),
        ],
        slow=True,
    ),
}
