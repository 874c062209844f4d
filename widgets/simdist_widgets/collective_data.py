"""A collective as the front end reads it: a small JSON header, and one block of bytes with what every chunk holds.

The front end draws and counts nothing itself: sentences, seconds, colours and the lanes of the arrows are made here, so that
the interactive and the static picture say the same. The other side is src/stepper_data.ts.

Taught in lesson 03a.
"""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np

from simdist.collectives.base import Schedule, Transfer
from simdist_widgets import collective_states as states
from simdist_widgets import collective_text as text
from simdist_widgets.trace_bytes import pack

# Hues that people with any of the common colour deficiencies tell apart (after Okabe and Ito); order of the ranks.
FEW_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c1a", "#7b5ea7")


def rank_colors(num_ranks: int) -> list[str]:
    """One colour for each rank; from nine ranks on, colours of a wheel, so that neighbours look alike.

    Args:
        num_ranks: how many.

    Returns:
        Texts of the form #rrggbb.

    Example:
        >>> rank_colors(2)
        ['#0072b2', '#e69f00']
    """
    if num_ranks <= len(FEW_COLORS):
        return list(FEW_COLORS[:num_ranks])
    wheel = (colorsys.hls_to_rgb(0.58 + rank / num_ranks, 0.50, 0.58) for rank in range(num_ranks))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in rgb) for rgb in wheel]


def arrow_lanes(transfers: list[Transfer]) -> list[list[int]]:
    """How far out each arrow runs beside its column of chunks, so that arrows do not lie on each other.

    Arrows to greater ranks run on one side of the column and arrows to smaller ones on the other; on each side, the shorter
    arrow runs inside the longer one.

    Args:
        transfers: all of one step.

    Returns:
        For each transfer and each of its chunks, a number from 0.

    Example:
        >>> arrow_lanes([Transfer(0, 0, 2, (0,), True), Transfer(0, 1, 3, (0,), True), Transfer(0, 3, 0, (0,), True)])
        [[0], [1], [0]]
    """
    lanes = [[0] * len(transfer.chunks) for transfer in transfers]
    shortest_first = sorted(range(len(transfers)), key=lambda i: abs(transfers[i].target - transfers[i].source))
    taken: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}  # (chunk, downwards) -> (top, bottom, lane)
    for index in shortest_first:
        transfer = transfers[index]
        top, bottom = sorted((transfer.source, transfer.target))
        for place, chunk in enumerate(transfer.chunks):
            others = taken.setdefault((chunk, transfer.target > transfer.source), [])
            used = {lane for first, last, lane in others if first < bottom and top < last}
            lane = next(lane for lane in range(len(used) + 1) if lane not in used)
            others.append((top, bottom, lane))
            lanes[index][place] = lane
    return lanes


def encode(
    schedule: Schedule, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float, values: np.ndarray | None
) -> tuple[dict[str, Any], bytes]:
    """The header and the bytes of a collective, in the form that the stepper's front end reads.

    Args:
        schedule: any schedule.
        size_bytes: data of each rank.
        latency_s: of one transfer.
        bandwidth_bytes_per_s: of each rank's port.
        values: float64 [rank, chunk], or None.

    Returns:
        A JSON-able dict, and bytes: `held` (a bit for each contributor, least first, in whole bytes for each chunk), `needed`
        and `complete` (a byte for each chunk), `numbers` (float64, or nothing); axes moment, rank, chunk.

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> header, data = encode(schedule(2), 8, 0.0, 1.0, None)
        >>> [step["end_s"] for step in header["steps"]], header["columns"]["held"]["length"]
        ([0.0, 4.0, 8.0], 12)
    """
    held = states.contributions(schedule)
    wanted = states.needed(schedule, held)
    complete = states.complete(schedule, held, wanted)
    ends_s = states.seconds_by_step(schedule, size_bytes, latency_s, bandwidth_bytes_per_s)
    columns: dict[str, np.ndarray | bytes] = {
        "held": np.packbits(held, axis=-1, bitorder="little").ravel(),
        "needed": wanted.astype(np.uint8).ravel(),
        "complete": complete.astype(np.uint8).ravel(),
        "numbers": np.empty(0) if values is None else states.numbers(schedule, values).ravel(),
    }
    sections, data = pack(columns)
    header = {
        "version": 1,
        "name": text.name(schedule),
        "sums": schedule.kind in states.SUMS,
        "num_ranks": schedule.num_ranks,
        "num_chunks": schedule.num_chunks,
        "size_bytes": float(size_bytes),
        "results": int(wanted[-1].sum()),
        "colors": rank_colors(schedule.num_ranks),
        "steps": _steps(schedule, size_bytes, ends_s, complete),
        "columns": sections,
    }
    return header, data


def _steps(schedule: Schedule, size_bytes: float, ends_s: np.ndarray, complete: np.ndarray) -> list[dict[str, Any]]:
    """One record for each moment: what happened just before it, and what has been done by then."""
    steps = states.steps_of(schedule)
    sent = np.zeros(schedule.num_ranks, np.int64)
    records: list[dict[str, Any]] = []
    for moment in range(schedule.num_steps + 1):
        transfers = steps[moment - 1] if moment else []
        sent = sent + states.port_loads(schedule, transfers)[0]
        says = text.sentence(transfers, schedule.num_ranks) if moment else text.beginning(schedule)
        if moment == schedule.num_steps:
            says = f"{says} {text.outcome(schedule, complete[-1])}"
        chunk_bytes = size_bytes / schedule.num_chunks
        record = {
            "text": says,
            "end_s": float(ends_s[moment]),
            "sent_bytes": float(sent.sum() * chunk_bytes),
            "busiest_bytes": float(sent.max() * chunk_bytes),
            "complete": int(complete[moment].sum()),
            "transfers": [
                {"source": t.source, "target": t.target, "adds": t.adds, "chunks": list(t.chunks), "lanes": lanes}
                for t, lanes in zip(transfers, arrow_lanes(transfers), strict=True)
            ],
        }
        records.append(record)
    return records
