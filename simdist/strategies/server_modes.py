"""How the workers of parameter servers wait for each other, and what survives a crash of a server: the arguments, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast, get_args

from simdist.arguments import known_word, whole_number
from simdist.errors import InvalidArgumentError
from simdist.runtime.serving import Recovery

__all__ = ["Mode", "checked_mode", "checked_recovery"]

Mode = Literal["async", "bounded", "sync"]


def checked_mode(mode: str, staleness: int | None, backup_workers: int, num_workers: int) -> tuple[Mode, int, int]:
    """The mode, the staleness in rounds, and the number of backup workers.

    Raises:
        InvalidArgumentError: an unknown mode, or an argument that does not belong to it or is out of range.
    """
    mode = known_word(mode, "mode", get_args(Mode))
    if staleness is not None and mode != "bounded":
        raise InvalidArgumentError(f"staleness={staleness!r} belongs to mode='bounded'; the mode is {mode!r}. Leave it out.")
    if mode == "bounded" and staleness is None:
        raise InvalidArgumentError(
            "mode='bounded' needs staleness=, the number of rounds that a worker may be ahead of the slowest; for example staleness=4."
        )
    backups = whole_number(backup_workers, "backup_workers", 0)
    if backups and mode != "sync":
        raise InvalidArgumentError(
            f"backup_workers={backups} belongs to mode='sync', whose rounds wait for workers; the mode is {mode!r}. Leave it out."
        )
    if backups >= num_workers:
        raise InvalidArgumentError(
            f"backup_workers={backups}, but the cluster has {num_workers} workers, and a round needs at least one. Use at most "
            f"{num_workers - 1}."
        )
    return cast("Mode", mode), 0 if staleness is None else whole_number(staleness, "staleness", 0), backups


def checked_recovery(recovery: Recovery, servers: Sequence[str]) -> Recovery:
    """A kind of recovery that these servers can carry out.

    Raises:
        InvalidArgumentError: it is unknown, or there is no second server for a copy.
    """
    recovery = cast("Recovery", known_word(recovery, "recovery", get_args(Recovery)))
    if recovery == "replica" and len(servers) < 2:
        raise InvalidArgumentError(
            "recovery='replica' keeps a copy of each server's variables on the next one, and there is only one ps task. Give the cluster "
            "two, or use recovery='checkpoint'."
        )
    return recovery
