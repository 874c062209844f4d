"""A connection, as figures: how many bytes per second, and how long the first of them takes.

This is data: the queue of messages that a running cluster has on a link is `simdist.simulation.links.Link`.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.hardware.figures import check_name, keep_figures

__all__ = ["LinkModel"]


@dataclass(frozen=True, kw_only=True)
class LinkModel:
    """A connection between two places, such as two devices of one host.

    Args:
        bandwidth: bytes per second in each direction.
        latency: seconds from sending to receiving an empty message.
        shared: whether all devices of a host share it, as they do a bus; default False: each has a port of its own.
        name: what pictures and messages call it.

    Raises:
        TypeError: if a figure is no number, or `shared` no truth value.
        InvalidArgumentError: if the bandwidth is not positive or the latency negative.

    Example:
        >>> LinkModel(bandwidth=1e9, latency=1e-6).bandwidth
        1000000000.0
    """

    bandwidth: float
    latency: float
    shared: bool = False
    name: str = "link"

    def __post_init__(self) -> None:
        check_name(self)
        keep_figures(self, "bandwidth", owner="Link")
        keep_figures(self, "latency", owner="Link", may_be_zero=True)
        if not isinstance(self.shared, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Link: shared must be True or False; got {self.shared!r}.")
