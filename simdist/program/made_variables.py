"""The variables that the Python of a step makes: each time that it is traced, at the same position, or once, where they are not there yet.

What each trace makes is one variable, the one that the first of them has made. What a step makes once is not made by other traces, so it
must not be taken for what they make. A trace that has made variables is therefore repeated: what it does not make again was made once.
"""

from __future__ import annotations

from simdist.errors import InvalidArgumentError
from simdist.program.operations import VariableHandle

__all__ = ["MadeVariables"]


class MadeVariables:
    """What the traces make by which a program comes about: the last of them gives it.

    Args:
        step: its name.
        of_each_trace: the variables that each trace makes, by position; a trace adds what it makes after these.

    Example: the first trace makes a variable, and the next one does not make it again
        >>> of_each_trace = []
        >>> made = MadeVariables("step", of_each_trace)
        >>> of_each_trace.append(None)
        >>> made.is_repeated(num_made=1), made.is_repeated(num_made=0), of_each_trace
        (True, False, [])
    """

    def __init__(self, step: str, of_each_trace: list[VariableHandle]) -> None:
        self.step = step
        self.of_each_trace = of_each_trace
        self._known = len(of_each_trace)
        self._repeated: int | None = None  # how many there are after a trace that is being repeated

    def is_repeated(self, num_made: int) -> bool:
        """Whether a trace that has made so many variables is repeated; if not, it was the last one.

        Raises:
            InvalidArgumentError: the step makes some variables each time, and others once.
        """
        count = len(self.of_each_trace)
        if self._repeated is None:
            self._repeated = count
            return count > self._known
        if num_made == 0 == self._known:
            self.of_each_trace.clear()
        elif num_made != self._repeated or count != self._repeated:
            error = InvalidArgumentError(
                f"{self.step} makes {self._repeated} variables where it is traced, {self.of_each_trace[-1].name!r} among them, and "
                f"{num_made} where it is traced once more, so that it is not known which is which. Make all of them before the step, or "
                "each only where it is not there yet."
            )
            self.failed()
            raise error
        return False

    def stopped(self) -> None:
        """A trace has stopped, and the step is traced again: what it has made is not there yet for the next one."""
        del self.of_each_trace[self._known if self._repeated is None else self._repeated :]

    def failed(self) -> None:
        """A trace has failed: nothing of all that was made recurs."""
        del self.of_each_trace[self._known :]
        self._repeated = None
