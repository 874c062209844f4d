"""The seam between strategies and what they run on, and the simulated cluster behind it."""

from simdist.runtime.cluster import Cluster
from simdist.runtime.simulated.run import SimulatedRun

__all__ = ["Cluster", "SimulatedRun"]
