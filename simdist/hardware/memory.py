"""The memory of a device, as an account: who holds how many bytes, and what happens when there are not enough.

Invariants: what is in use is the sum of what is held; a request that fails changes nothing. Not modelled: fragmentation,
and the memory that a runtime keeps for itself.
"""

from __future__ import annotations

from simdist.errors import InvalidArgumentError, ResourceExhaustedError

__all__ = ["MemoryAccount", "readable"]

HOLDERS_IN_A_MESSAGE = 3


class MemoryAccount:
    """Who holds the memory of one device.

    Args:
        capacity_bytes: all that there is.
        owner: whose memory it is, for messages.

    Example:
        >>> account = MemoryAccount(1000, "ps:0")
        >>> account.allocate("table", 600)
        >>> account.allocate("bias", 600)
        Traceback (most recent call last):
        simdist.errors.ResourceExhaustedError: ps:0 has 1000 B of memory, of which 600 B are in use; bias needs 600 B more. ...
        >>> account.in_use_bytes, account.largest(1)
        (600, [('table', 600)])
    """

    def __init__(self, capacity_bytes: float, owner: str) -> None:
        self.capacity_bytes = capacity_bytes
        self.owner = owner
        self.in_use_bytes = 0
        self.peak_bytes = 0
        self._held: dict[str, int] = {}

    def allocate(self, label: str, size_bytes: int) -> None:
        """Hold so many bytes more.

        Args:
            label: who holds them; what has one label is added.
            size_bytes: how many.

        Raises:
            ResourceExhaustedError: there are not enough; the message names the largest holders.
        """
        self.require(label, size_bytes)
        self._held[label] = self._held.get(label, 0) + size_bytes
        self.in_use_bytes += size_bytes

    def require(self, label: str, size_bytes: int) -> None:
        """Make sure that so many bytes could be held for a while; remembers the peak.

        Args:
            label: who would hold them.
            size_bytes: how many.

        Raises:
            ResourceExhaustedError: there are not enough.
        """
        if self.in_use_bytes + size_bytes > self.capacity_bytes:
            holders = ", ".join(f"{name} ({readable(size)})" for name, size in self.largest(HOLDERS_IN_A_MESSAGE))
            raise ResourceExhaustedError(
                f"{self.owner} has {readable(self.capacity_bytes)} of memory, of which {readable(self.in_use_bytes)} are in use; "
                f"{label} needs {readable(size_bytes)} more. The largest holders: {holders or 'none'}. Use smaller batches, more "
                "parameter servers with a partitioner, or a device with more memory. Variables of a model that is not used any "
                "more hold their memory, too, as long as something refers to it, such as a name, a checkpoint or an error that was shown."
            )
        self.peak_bytes = max(self.peak_bytes, self.in_use_bytes + size_bytes)

    def release(self, label: str, size_bytes: int) -> None:
        """Give bytes back.

        Raises:
            InvalidArgumentError: the label does not hold so many.
        """
        held = self._held.get(label, 0)
        if size_bytes > held:
            raise InvalidArgumentError(f"{label} holds {held} bytes on {self.owner}; it cannot give back {size_bytes}.")
        self._held[label] = held - size_bytes
        if not self._held[label]:
            del self._held[label]
        self.in_use_bytes -= size_bytes

    def clear(self) -> None:
        """Forget everything: the process has died."""
        self._held.clear()
        self.in_use_bytes = 0

    def largest(self, count: int) -> list[tuple[str, int]]:
        """The holders of most bytes, the largest first."""
        return sorted(self._held.items(), key=lambda item: (-item[1], item[0]))[:count]


def readable(size_bytes: float) -> str:
    """Bytes with a unit: 1536 is "1.5 KiB".

    Example:
        >>> readable(999), readable(3 << 30)
        ('999 B', '3.0 GiB')
    """
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes:.0f} B"
