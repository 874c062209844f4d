"""All golden runs by name. To add one: a function in the file of its family, an entry in its table, and `python tests/golden/store.py`."""

from __future__ import annotations

from tests.golden.disturbed import DISTURBED
from tests.golden.fits import FITS
from tests.golden.mains import MAINS
from tests.golden.problems import Golden
from tests.golden.servers import SERVERS
from tests.golden.together import TOGETHER

__all__ = ["RUNS"]

RUNS: dict[str, Golden] = {**SERVERS, **TOGETHER, **FITS, **MAINS, **DISTURBED}
