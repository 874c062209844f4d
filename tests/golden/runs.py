"""All golden runs by name. To add one: a function in the file of its family, an entry in its table, and `python tests/golden/store.py`."""

from __future__ import annotations

from tests.golden.problems import Golden
from tests.golden.servers import SERVERS

__all__ = ["RUNS"]

RUNS: dict[str, Golden] = {**SERVERS}
