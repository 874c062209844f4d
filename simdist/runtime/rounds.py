"""What a step may do whose updates count with their round."""

from __future__ import annotations

from simdist.errors import FailedPreconditionError
from simdist.runtime.linked import ApplyAll, LinkedProgram, ReadGroups, ReadWithRows
from simdist.variables.layout import Layout

__all__ = ["require_one_step"]


def require_one_step(linked: LinkedProgram, layout: Layout) -> None:
    """Refuse a program that reads what it has changed: it would not see that before its round is complete.

    Raises:
        FailedPreconditionError: it does.
    """
    names = {group.number: [cell.name for cell in group.cells if cell.kind == "parameter"] for group in layout.groups}
    changed: set[int] = set()
    for op in linked.operations:
        if isinstance(op, ApplyAll):
            changed.update(part.group for part in op.parts)
        elif isinstance(op, ReadGroups | ReadWithRows):
            read = op.numbers if isinstance(op, ReadGroups) else op.groups
            again = [name for group in read if group in changed for name in names.get(group, ())]
            if again:
                raise FailedPreconditionError(
                    f"The step {linked.program.name} reads {', '.join(dict.fromkeys(again))} after it has changed it. Under mode='sync' "
                    "and mode='bounded' an update counts when its round is complete, so the step would read the value of before. Put one "
                    "training step into each closure, and schedule more of them."
                )
