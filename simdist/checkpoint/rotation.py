"""Which checkpoints of a directory stay: a decision without files and without a clock.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

__all__ = ["Entry", "Rotation"]


@dataclass(frozen=True)
class Entry:
    """A checkpoint that the rotation knows.

    Attributes:
        name: of its directory.
        saved_s: the virtual second at which it was saved.
    """

    name: str
    saved_s: float


@dataclass
class Rotation:
    """The checkpoints of a manager, the oldest first.

    Args:
        max_to_keep: so many stay; None: all.
        keep_every_s: of those that would go, one in so many seconds stays for ever; None: none.

    Attributes:
        entries: those that are managed.
        kept: names of those that stay for ever.
        last_kept_s: the second of the last one that stays for ever; before there is one, that from which the seconds count.
        begun_s: when this run has begun to keep checkpoints.

    Example:
        >>> rotation = Rotation(max_to_keep=2)
        >>> [rotation.saved(Entry(f"ckpt-{n}", float(n))) for n in (1, 2, 3)]
        [[], [], ['ckpt-1']]
        >>> rotation.names
        ['ckpt-2', 'ckpt-3']
    """

    max_to_keep: int | None
    keep_every_s: float | None = None
    entries: list[Entry] = field(default_factory=list[Entry])
    last_kept_s: float = 0.0
    begun_s: float = 0.0
    kept: set[str] = field(default_factory=set[str])

    @property
    def names(self) -> list[str]:
        """Those that are managed, the oldest first."""
        return [entry.name for entry in self.entries]

    def copy(self) -> Rotation:
        """What it knows now."""
        return replace(self, entries=list(self.entries), kept=set(self.kept))

    def saved(self, entry: Entry) -> list[str]:
        """One more was saved; the names of those that are to be removed."""
        self.kept.discard(entry.name)
        self.entries = [known for known in self.entries if known.name != entry.name] + [entry]
        surplus = 0 if self.max_to_keep is None else max(len(self.entries) - self.max_to_keep, 0)
        going, self.entries = self.entries[:surplus], self.entries[surplus:]
        return [gone.name for gone in going if not self._stays(gone)]

    def recovered(self, entries: Sequence[Entry]) -> None:
        """These are what a new manager has found."""
        self.entries = list(entries)

    def _stays(self, entry: Entry) -> bool:
        if entry.name in self.kept:
            return True
        if entry.saved_s < self.last_kept_s:
            self.last_kept_s = self.begun_s  # the clock of another run
        if self.keep_every_s is None or entry.saved_s - self.last_kept_s < self.keep_every_s:
            return False
        self.last_kept_s = entry.saved_s
        self.kept.add(entry.name)
        return True
