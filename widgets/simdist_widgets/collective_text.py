"""A step of a collective in one sentence, found from its transfers alone, whatever algorithm made them.

Regular patterns get the words that a teacher would use (everyone to the next rank; pairs that swap; one to many); what
fits none of them is counted.

Taught in lesson 03a.
"""

from __future__ import annotations

import numpy as np

from simdist.collectives.base import Schedule, Transfer
from simdist_widgets.collective_states import SUMS

MOST_LISTED = 4


def name(schedule: Schedule) -> str:
    """The collective as people call it.

    Args:
        schedule: any schedule.

    Returns:
        For instance "ring all-reduce".

    Example:
        >>> name(Schedule("all_reduce", "ring", 1, 1, ()))
        'ring all-reduce'
    """
    return f"{schedule.algorithm} {schedule.kind.replace('_', '-')}"


def beginning(schedule: Schedule) -> str:
    """What holds before the first step.

    Args:
        schedule: any schedule.

    Returns:
        A sentence.

    Example:
        >>> beginning(Schedule("all_reduce", "ring", 4, 4, ()))
        'every rank holds its own data only, cut into 4 chunks.'
    """
    if schedule.kind not in SUMS:
        return "chunks with a colour are where they come from; the others wait for their data."
    cut = f", cut into {schedule.num_chunks} chunks" if schedule.num_chunks > 1 else ""
    return f"every rank holds its own data only{cut}."


def sentence(transfers: list[Transfer], num_ranks: int) -> str:
    """What happens in one step.

    Args:
        transfers: all of this step.
        num_ranks: members of the collective.

    Returns:
        Two short sentences, without the step's number: who sends, and what becomes of it.

    Example:
        >>> ring = [Transfer(0, rank, (rank + 1) % 4, (rank,), True) for rank in range(4)]
        >>> sentence(ring, 4)
        "every rank sends one chunk to the next rank. What arrives is added to the receiver's own."
    """
    if not transfers:
        return "nobody sends anything."
    return f"{_who_to_whom(transfers, num_ranks)}. {_effect(transfers)}"


def outcome(schedule: Schedule, complete: np.ndarray) -> str:
    """What holds after the last step.

    Args:
        schedule: any schedule.
        complete: bool [rank, chunk], which chunks hold what the collective is for.

    Returns:
        A sentence.

    Example:
        >>> outcome(Schedule("all_reduce", "ring", 2, 2, ()), np.ones((2, 2), bool))
        'Now every rank holds the whole sum.'
    """
    what = "sum" if schedule.kind in SUMS else "data"
    whole = np.flatnonzero(complete.all(1))
    if len(whole) == schedule.num_ranks:
        return f"Now every rank holds {'the whole sum' if what == 'sum' else 'all that it should hold'}."
    if len(whole) == 1:
        return f"Now rank {whole[0]} holds the whole {what}."
    each = complete.sum(1)
    if each.min() == each.max() > 0:
        return f"Now every rank holds the {what} of {count(int(each[0]), 'chunk')}."
    return f"Now {complete.sum()} of {complete.size} chunks are complete."


def count(number: int, noun: str) -> str:
    """A number and its noun.

    Args:
        number: how many.
        noun: in the singular.

    Returns:
        For instance "1 chunk", "2 chunks".

    Example:
        >>> count(2, "chunk")
        '2 chunks'
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _who_to_whom(transfers: list[Transfer], num_ranks: int) -> str:
    pairs = {(t.source, t.target) for t in transfers}
    sources, targets = {t.source for t in transfers}, {t.target for t in transfers}
    amount = _amount(transfers)
    if len(pairs) == 1:
        source, target = pairs.pop()
        return f"rank {source} sends {amount} to rank {target}"
    if len(sources) == len(targets) == len(pairs) and all((target, source) in pairs for source, target in pairs):
        return f"{_partners(pairs, num_ranks)} send each other {amount}"
    offsets = {(target - source) % num_ranks for source, target in pairs}
    if len(pairs) == len(sources) == num_ranks and len(offsets) == 1:
        return f"every rank sends {amount} to {_position(offsets.pop(), num_ranks)}"
    if len(pairs) == num_ranks * (num_ranks - 1):
        return f"every rank sends {amount} to every other rank"
    if len(sources) == 1:
        return f"rank {sources.pop()} sends {amount} to each of {count(len(targets), 'other rank')}"
    if len(targets) == 1:
        return f"{count(len(sources), 'rank')} send {amount} each to rank {targets.pop()}"
    senders = count(len(sources), "rank")
    if len(sources) < len(pairs):
        return f"{senders} send {amount} in each of {len(pairs)} transfers"
    return f"{senders} send {amount} each{_where(pairs, num_ranks)}"


def _where(pairs: set[tuple[int, int]], num_ranks: int) -> str:
    """Where it goes, if every rank sends to another one: spelled out for a few, or by its distance; "" if neither is short."""
    offsets = {target - source for source, target in pairs}
    if len(pairs) <= MOST_LISTED:
        return ": " + ", ".join(f"{source} to {target}" for source, target in sorted(pairs))
    return f", to {_position(offsets.pop() % num_ranks, num_ranks)}" if len(offsets) == 1 else ""


def _partners(pairs: set[tuple[int, int]], num_ranks: int) -> str:
    """Who the two ends of each collective are."""
    apart = {abs(target - source) for source, target in pairs}
    if num_ranks == 2:
        return "both ranks"
    if len(pairs) == 2:
        return "ranks {} and {}".format(*min(pairs))
    if len(apart) == 1:
        distance = apart.pop()
        return "neighbours" if distance == 1 else f"ranks that are {distance} apart"
    return f"{len(pairs) // 2} pairs of ranks"


def _amount(transfers: list[Transfer]) -> str:
    sizes = {len(t.chunks) for t in transfers}
    if len(sizes) > 1:
        return f"{min(sizes)} to {max(sizes)} chunks"
    size = sizes.pop()
    return "one chunk" if size == 1 else f"{size} chunks"


def _position(offset: int, num_ranks: int) -> str:
    if offset == 1:
        return "the next rank"
    if offset == num_ranks - 1:
        return "the rank before"
    back = num_ranks - offset
    return f"the rank {offset} places on" if offset <= back else f"the rank {back} places back"


def _effect(transfers: list[Transfer]) -> str:
    adding = sum(t.adds for t in transfers)
    if adding == len(transfers):
        return "What arrives is added to the receiver's own."
    if adding == 0:
        return "What arrives replaces the receiver's own."
    return f"What arrives is added in {adding} of {len(transfers)} transfers, and replaces the receiver's own in the others."
