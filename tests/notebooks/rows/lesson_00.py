"""Answers to the exercises of lesson 00."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
from exercise_rows import Rows

ROWS = {
    "first_exercise": Rows(
        right=[19_240, 19_240.0, np.int64(19_240), 4 * np.float32(4810)],
        wrong=[
            (4810, "each of them takes four bytes"),
            (4 * (64 * 64 + 640), "the kernels alone"),
            (2 * 19_240, "eight bytes a number"),
            (8 * 19_240, "these are bits"),
            (4 * 19_240, "in both directions"),
            (3 * 19_240, "all three workers"),
            (20_000, "20,000 bytes: that is too many"),
            (1, "too few"),
            ("19240", "without quotes"),
            (19_240.5, "is not a whole number"),
            (-4, "not in the range"),
        ],
    ),
    "second_exercise": Rows(
        right=[15, 15.0, np.int32(15), Fraction(60, 4), Decimal(15)],
        wrong=[
            (14, "an epoch has 5 closures"),
            (1, "an epoch has 60 closures"),
            (16, "16 is not the smallest"),
            (20, "an epoch has 3 closures: few enough"),
            (60, "not the smallest"),
            (0, "from 1 to 60"),
            (61, "from 1 to 60"),
            ("fifteen", "without quotes"),
            (60 / 14, "is not a whole number"),
            (Fraction(60, 14), "is not a whole number"),
        ],
    ),
    "third_exercise": Rows(
        right=[3, np.int64(3)],
        wrong=[
            (1, "with 1 server an epoch takes 29.8 ms"),
            (2, "with 2 servers an epoch takes 15.5 ms"),
            (4, "but with 3 it takes 11.5 ms: enough, too"),
            (12, "enough, too"),
            (0, "from 1 to 12"),
            (13, "from 1 to 12"),
            (2.5, "is not a whole number"),
        ],
        slow=True,
    ),
}
