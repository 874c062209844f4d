"""Bytes that a program lets one device send to another, and waits for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Delivery"]


@dataclass(frozen=True)
class Delivery:
    """Bytes on their way from one device, or task, to another; `name` is what the trace calls them on the lane of the target."""

    source: str
    target: str
    size_bytes: int
    name: str
