"""The runtime: the wall between strategies and engines, and the engines behind it."""

from simdist.runtime.cluster import Cluster
from simdist.runtime.simulated.run import SimulatedRun

__all__ = ["Cluster", "SimulatedRun"]
