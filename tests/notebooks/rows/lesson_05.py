"""Answers to the exercises of lesson 05."""

from __future__ import annotations

import numpy as np
from exercise_rows import Rows

ROWS = {
    "first_exercise": Rows(
        right=[4, 4.0, np.int64(4)],
        wrong=[
            (3, "3 is the mean staleness"),
            (12, "from all three others together"),
            (2, "would miss about 6 updates"),
            (5.5, "would miss about 16.5 updates"),
            (0.25, "at least 1"),
            ("4 times", "without quotes"),
        ],
    ),
    "second_exercise": Rows(
        right=[5, 5.0, np.int64(5)],
        wrong=[
            (4, "0.585 iterations per second"),
            (0, "0.302 iterations per second"),
            (6, "so is 5"),
            (64, "so is 63"),
            (-1, "from 0 to 1,000"),
            (5.5, "is not a whole number"),
            ("5", "without quotes"),
        ],
    ),
    "third_exercise": Rows(
        right=[
            {"mode": "sync", "backup_workers": 2},
            {"mode": "sync", "backup_workers": 1},
            {"mode": "sync", "backup_workers": 15},
        ],
        wrong=[
            ({"mode": "sync"}, "updates, the lowest loss was"),
            ({"mode": "async"}, "updates, the lowest loss was"),
            ({"mode": "bounded", "staleness": 4}, "updates, the lowest loss was"),
            ({"mode": "bounded"}, "the strategy refused it"),
            ({"mode": "sync", "backup_workers": 16}, "the strategy refused it"),
            ({"mode": "fast"}, "the strategy refused it"),
            ({"rate": 0.1}, "is none of the arguments that you may choose: mode, staleness, backup_workers"),
            ("sync", "is no dict of arguments"),
        ],
        slow=True,
    ),
}
