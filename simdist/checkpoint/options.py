"""Options of saving: who writes, and whether the program waits."""

from __future__ import annotations

from dataclasses import dataclass

from simdist.arguments import flag, known_word

__all__ = ["CheckpointOptions"]

WRITERS = ("chief", "owners")


@dataclass(frozen=True)
class CheckpointOptions:
    """How a checkpoint is saved.

    A disk writes a file, makes it durable, reads it back (so a torn write is found), and renames it durably: of n bytes
    ``n / write_bandwidth + n / read_bandwidth + 3 * latency + 2 * fsync`` of its `DiskModel`. Before that, values come over the network.

    Args:
        enable_async: True goes on with the training while the disk writes; a later save, `Checkpoint.sync` and a restore wait for it. The
            values are those of the moment of saving either way. A launched main that ends waits for
            it, too; `Cluster.close` warns of one that is lost. Default False.
        writers: "chief" (the default): the task of the program that saves, or the one on whose disk the path lies
            (`Cluster.directory`), gets all values over the network, and writes them. "owners": each task that holds values writes them to
            its own disk, side by side, and the checkpoint is complete with the last one; a restore reads the parts side by side.

    Raises:
        InvalidArgumentError: other writers.
        TypeError: `enable_async` is neither True nor False.

    Example:
        >>> CheckpointOptions(writers="owners").writers
        'owners'
    """

    enable_async: bool = False
    writers: str = "chief"

    def __post_init__(self) -> None:
        flag(self.enable_async, "enable_async")
        object.__setattr__(self, "writers", known_word(self.writers, "writers", WRITERS))
