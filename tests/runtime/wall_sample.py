"""The golden runs that CI runs through a proxy of the engine, and only so: they are compared with what is stored all the same."""

from __future__ import annotations

__all__ = ["THROUGH_A_PROXY"]

THROUGH_A_PROXY = {
    "servers: three workers, adam",
    "servers: ten workers, sharded",
    "servers: server crash",
    "servers: exhausted dataset",
    "servers: timing only",
    "servers: two devices per worker",
    "together: mirrored, reduction to one device",
    "together: central storage",
    "together: backup workers",
    "together: survivors go on",
    "mains: crash and restart",
    "mains: beside a coordinator",
    "disturbed: chief crash",
    "disturbed: closures that end badly",
}
