"""The workloads that a campaign knows. To add one: a file with a subclass of `Workload`, and an entry here."""

from __future__ import annotations

from simdist.chaos.workloads.base import Workload
from simdist.chaos.workloads.checkpoints import Checkpoints
from simdist.chaos.workloads.coordinator import Coordinator
from simdist.chaos.workloads.fits import FITS
from simdist.chaos.workloads.mains import Mains, TrainedMains
from simdist.chaos.workloads.servers import Servers
from simdist.chaos.workloads.synchronous import SYNCHRONOUS

__all__ = ["WORKLOADS", "Workload"]

WORKLOADS: dict[str, Workload] = {
    workload.name: workload for workload in (Coordinator(), *SYNCHRONOUS, Mains(), TrainedMains(), *FITS, Servers(), Checkpoints())
}
