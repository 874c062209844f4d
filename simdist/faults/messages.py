"""The kinds of messages between tasks, by which faults choose whom they hit.

    read                the request for variables              answered by read_reply (bytes)
    update              gradients or other operands (bytes)    answered by update_reply, the confirmation
    closure             work for a worker (bytes, if its       answered by closure_reply (bytes,
                        arguments are large)                   if its results are)
    round               the coordinator's word to a server     answered by round_reply
                        that a round is complete
    heartbeat           a task's sign of life, and its registration after a restart
    notice              the chief's word to a worker that it was replaced, and to servers that it was
    reset               the end of a connection, when a process dies or a server is down
    copy                a variable that is fetched, the state that a new replica begins with (bytes)
    collective          the transfers of an all-reduce and its relatives (bytes)

``request`` and ``reply`` stand for all four of a kind.
"""

from __future__ import annotations

__all__ = ["CHOICES", "MESSAGES", "kinds_of"]

REQUESTS = ("read", "update", "closure", "round")
REPLIES = ("read_reply", "update_reply", "closure_reply", "round_reply")
MESSAGES = (*REQUESTS, *REPLIES, "heartbeat", "notice", "reset", "copy", "collective")
CHOICES = (*MESSAGES, "request", "reply")


def kinds_of(choice: str | None) -> frozenset[str]:
    """The kinds that a choice stands for; None: all.

    Example:
        >>> sorted(kinds_of("request"))
        ['closure', 'read', 'round', 'update']
        >>> kinds_of("copy"), len(kinds_of(None))
        (frozenset({'copy'}), 13)
    """
    if choice is None:
        return frozenset(MESSAGES)
    return frozenset({"request": REQUESTS, "reply": REPLIES}.get(choice, (choice,)))
