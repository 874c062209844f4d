"""The kinds of disturbance that a campaign knows. To add one: a file with a subclass of `Kind`, and an entry here."""

from __future__ import annotations

from simdist.chaos.kinds.base import Ground, Kind
from simdist.chaos.kinds.crash import Crash, LoseHost
from simdist.chaos.kinds.disks import DiskFull, DiskSlow, Preempt, TornWrite
from simdist.chaos.kinds.interrupt import Interrupt
from simdist.chaos.kinds.messages import Delay, Drop, Duplicate, SlowLink
from simdist.chaos.kinds.silence import Partition, Pause
from simdist.chaos.kinds.slow import Slow

__all__ = ["KINDS", "Ground", "Kind"]

OF_TASKS: tuple[Kind, ...] = (Crash(), LoseHost(), Slow(), Interrupt(), Pause())
OF_MESSAGES: tuple[Kind, ...] = (Partition(), Drop(), Delay(), Duplicate(), SlowLink())
OF_DISKS: tuple[Kind, ...] = (DiskFull(), DiskSlow(), TornWrite(), Preempt())

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*OF_TASKS, *OF_MESSAGES, *OF_DISKS)}
