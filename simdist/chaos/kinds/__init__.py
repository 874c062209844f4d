"""The kinds of disturbance that a campaign knows. To add one: a file with a subclass of `Kind`, and an entry here."""

from __future__ import annotations

from simdist.chaos.kinds.base import Ground, Kind
from simdist.chaos.kinds.crash import Crash
from simdist.chaos.kinds.interrupt import Interrupt
from simdist.chaos.kinds.silence import Partition, Pause
from simdist.chaos.kinds.slow import Slow

__all__ = ["KINDS", "Ground", "Kind"]

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Crash(), Slow(), Interrupt(), Pause(), Partition())}
