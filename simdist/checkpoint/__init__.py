"""Checkpoints: the state of a training as files that are whole or absent, written by Orbax through the disks of tasks.

Taught in lesson 09.
"""

from simdist.checkpoint.checkpoint import Checkpoint
from simdist.checkpoint.directory import latest_checkpoint
from simdist.checkpoint.iteration import checkpoints_iterator
from simdist.checkpoint.manager import CheckpointManager
from simdist.checkpoint.options import CheckpointOptions
from simdist.checkpoint.preemption import PreemptionCheckpointHandler, TerminationConfig

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "CheckpointOptions",
    "PreemptionCheckpointHandler",
    "TerminationConfig",
    "checkpoints_iterator",
    "latest_checkpoint",
]
