"""The kinds of messages between tasks, by which faults choose whom they hit.

    read                the request for variables              answered by read_reply (bytes)
    update              gradients or other operands (bytes)    answered by update_reply, the confirmation
    closure             work for a worker                      answered by closure_reply
    heartbeat           a task's sign of life, and its registration after a restart
    notice              the chief's word to a worker that it was replaced
    reset               the end of a connection, when a process dies or a server is down
    copy                a variable that is fetched, the state that a new replica begins with (bytes)
    collective          the transfers of an all-reduce and its relatives (bytes)

``request`` and ``reply`` stand for all three of a kind.
"""

from __future__ import annotations

__all__ = ["CHOICES", "MESSAGES", "kinds_of"]

REQUESTS = ("read", "update", "closure")
REPLIES = ("read_reply", "update_reply", "closure_reply")
MESSAGES = (*REQUESTS, *REPLIES, "heartbeat", "notice", "reset", "copy", "collective")
CHOICES = (*MESSAGES, "request", "reply")


def kinds_of(choice: str | None) -> frozenset[str]:
    """The kinds that a choice stands for; None: all.

    Example:
        >>> sorted(kinds_of("request"))
        ['closure', 'read', 'update']
        >>> kinds_of("copy"), len(kinds_of(None))
        (frozenset({'copy'}), 11)
    """
    if choice is None:
        return frozenset(MESSAGES)
    return frozenset({"request": REQUESTS, "reply": REPLIES}.get(choice, (choice,)))
