"""Steps that carry a state from element to element: what a function gives for each.

Invariant: a state keeps its structure and its dtypes; a function that raises leaves it as it was.

Taught in lesson 08.
"""

from __future__ import annotations

from simdist.arguments import name_of_function
from simdist.data.batch import Batch
from simdist.data.functions import each, varying_axes, varying_spec
from simdist.data.leaves import Element, ElementFunction, flatten, unflatten
from simdist.data.nodes import INFINITE, Node, Pass, Spec, Transform
from simdist.data.reach import reached
from simdist.data.sources import blank_element, probed_elements
from simdist.data.streams import Pull
from simdist.errors import InvalidArgumentError

__all__ = ["Scan", "State", "require_end"]


class State:
    """What a function hands on from element to element.

    Args:
        initial: nested arrays and numbers.
        fn: the function, for messages.

    Example:
        >>> state = State(0, max)
        >>> state.become(3)
        >>> state.argument()
        np.int32(3)
    """

    def __init__(self, initial: Element, fn: ElementFunction) -> None:
        self._leaves, self._structure = flatten(initial, "initial_state")
        self._fn = fn

    def argument(self) -> Element:
        """The state as a function sees it: scalars where an array has no axes."""
        return unflatten(self._structure, [leaf if leaf.ndim else leaf[()] for leaf in self._leaves])

    def become(self, value: Element) -> None:
        """Take on a new state.

        Raises:
            InvalidArgumentError: its structure or a dtype is another one.
        """
        name = name_of_function(self._fn, "the function")
        leaves, structure = flatten(value, f"the state that {name!r} returned")
        before, after = ([leaf.dtype.name for leaf in some] for some in (self._leaves, leaves))
        if structure != self._structure or before != after:
            raise InvalidArgumentError(
                f"{name!r} returned the state {structure} of {after}, and was given {self._structure} of {before}; expected the same "
                "structure and dtypes; give initial_state the dtypes of the results, for example np.float32(0)"
            )
        self._leaves = leaves


class Scan(Transform):
    """What a function gives for each element, and for the state that it returned for the element before."""

    def __init__(self, source: Node, initial: Element, fn: ElementFunction) -> None:
        if not callable(fn):
            raise TypeError(f"scan was given {fn!r}; expected a function of a state and an element")
        super().__init__(source, "scan()")
        self.initial, self.fn = initial, fn
        State(initial, fn)  # refuses at once what cannot be a state

    @property
    def knows_spec(self) -> bool:
        return False

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Scan(sources[0], self.initial, self.fn)

    def open(self, one_pass: Pass) -> Pull:
        state = State(self.initial, self.fn)
        pull = self.source.open_elements(one_pass)
        one_pass.will_call(self.fn)
        first: Batch | None = None

        def element(batch: Batch) -> Batch:
            nonlocal first
            result = self.stepped(state, batch)
            first = first or result
            if result.structure != first.structure:
                raise InvalidArgumentError(
                    f"{name_of_function(self.fn, 'the function')!r} returned {result.structure}, and {first.structure} before; expected "
                    "one structure; return the same nesting from every branch"
                )
            return result

        return each(pull, element)

    def stepped(self, state: State, batch: Batch) -> Batch:
        """What the function gives for an element; the state becomes the new one."""
        answer = self.fn(state.argument(), unflatten(batch.structure, batch.arguments()))
        name = name_of_function(self.fn, "the function")
        if type(answer) is not tuple or len(answer) != 2:
            raise InvalidArgumentError(f"{name!r} returned {type(answer).__name__} to scan; expected a pair (new state, output element)")
        result = Batch.from_value(answer[1], f"the result of {name!r}")
        state.become(answer[0])
        return result

    def cardinality(self) -> int:
        return self.source.cardinality()

    def spec(self) -> Spec:
        element = (probed_elements(self.source, 1) or [blank_element(self.source)])[0]
        reach = reached(self.fn)
        try:
            result = self.stepped(State(self.initial, self.fn), element)
        finally:
            reach.put_back()
        varying = [varying_axes(self.source.spec()[1], element)]
        return result.structure, tuple(varying_spec([leaf], varying) for leaf in result.leaves())


def require_end(node: Node, what: str) -> None:
    """Refuse to read all of a pipeline that has no end.

    Raises:
        InvalidArgumentError: it has none.
    """
    if node.cardinality() == INFINITE:
        raise InvalidArgumentError(f"{what} reads all elements, and {node.describe()} has no end; expected a finite dataset; add .take(n)")
