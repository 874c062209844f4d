"""Steps that take each element from one of several datasets: which one, another dataset says, or chance.

Invariant: chance is a generator of its own, made of the seed; the same choices come in each pass, in every process.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from simdist.arguments import float_of, listed_numbers, python_number, shown, whole_number
from simdist.data import joining, streams
from simdist.data.batch import Batch
from simdist.data.leaves import Array
from simdist.data.nodes import INFINITE, UNKNOWN, Node, Pass, Spec
from simdist.data.seeds import COMMON_SEED, generator
from simdist.data.streams import Pull
from simdist.errors import InvalidArgumentError

__all__ = ["Choose", "Mixture", "Sample"]

DRAWN_AT_ONCE = 256
NextChoice = Callable[[], int | None]


class Mixture(Node):
    """One element of one of several sources at a time.

    Args:
        members: the sources of elements.
        others: further sources, of choices.
        stops_on_empty: end when a source is chosen that has no more elements; otherwise it is passed over.
        label: the call that makes this step.
    """

    def __init__(self, members: tuple[Node, ...], others: tuple[Node, ...], stops_on_empty: bool, label: str) -> None:
        self.members, self.sources = members, (*members, *others)
        self.stops_on_empty = stops_on_empty
        self.label = label
        if all(member.knows_spec for member in members):
            self.spec()  # refuses what does not belong together at once

    @abstractmethod
    def open_choices(self, one_pass: Pass) -> NextChoice:
        """The number of a source at each call; None at the end."""

    def choosable(self) -> set[int]:
        """The numbers of the sources that may be chosen."""
        return set(range(len(self.members)))

    @property
    def static_batch_size(self) -> int | None:
        return joining.common_batch_size(self.members)

    @property
    def full_batches(self) -> bool:
        return self.static_batch_size is not None and all(member.full_batches for member in self.members)

    def open(self, one_pass: Pass) -> Pull:
        pulls = [member.open_elements(one_pass) for member in self.members]
        next_choice = self.open_choices(one_pass)
        left = self.choosable()
        held: list[int] = []  # the choice whose source has raised, and will give the same element when it is asked again

        def chosen(choice: int) -> Array:
            one_pass.stays = False
            try:
                return pulls[choice](1)
            except Exception:
                if one_pass.stays:
                    held.append(choice)
                raise

        def pull(limit: int) -> Array:
            for _ in range(streams.FUTILE_ROWS):
                choice = held.pop() if held else next_choice() if left else None
                if choice is None:
                    break
                if choice in left and len(chunk := chosen(choice)):
                    return chunk
                left.discard(choice)
                if self.stops_on_empty:
                    left.clear()
            else:
                raise streams.FutileError(
                    f"{self.label} chose empty datasets {streams.FUTILE_ROWS:,} times one after another, and may never choose another; "
                    "expected choices of all datasets, or stop_on_empty_dataset=True"
                )
            return streams.NOTHING

        return pull

    def cardinality(self) -> int:
        totals = [member.cardinality() for member in self.members]
        return 0 if not any(totals) else UNKNOWN

    def spec(self) -> Spec:
        return joining.spec_of_all(self.members)


class Choose(Mixture):
    """Elements of the sources in the order that a source of numbers says."""

    def __init__(self, members: tuple[Node, ...], choices: Node, stops_on_empty: bool) -> None:
        super().__init__(members, (choices,), stops_on_empty, "Dataset.choose_from_datasets(...)")
        self.choices = choices

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Choose(sources[:-1], sources[-1], self.stops_on_empty)

    def open_choices(self, one_pass: Pass) -> NextChoice:
        pull = self.choices.open_elements(one_pass)

        def next_choice() -> int | None:
            chunk = pull(1)
            return self.choice_of(chunk[0]) if len(chunk) else None

        return next_choice

    def choice_of(self, batch: Batch) -> int:
        leaves, count = batch.leaves(), len(self.members)
        if len(leaves) != 1 or leaves[0].shape != () or leaves[0].dtype.kind not in "iu" or not 0 <= int(leaves[0]) < count:
            raise InvalidArgumentError(
                f"choice_dataset gave {batch.value()!r} for {count} datasets; expected one integer from 0 to {count - 1} in each element"
            )
        return int(leaves[0])


class Sample(Mixture):
    """Elements of the sources by chance.

    Args:
        members: the sources.
        weights: of the sources, which add up to any number above 0.
        seed: of the choices.
        stops_on_empty: as of `Mixture`.
    """

    def __init__(self, members: tuple[Node, ...], weights: Sequence[float] | None, seed: int | None, stops_on_empty: bool) -> None:
        self.weights = checked_weights(weights, len(members))
        self.seed = COMMON_SEED if seed is None else whole_number(seed, "seed", -(1 << 63))
        super().__init__(members, (), stops_on_empty, "Dataset.sample_from_datasets(...)")

    def over(self, sources: tuple[Node, ...]) -> Node:
        return Sample(sources, self.weights.tolist(), self.seed, self.stops_on_empty)

    def choosable(self) -> set[int]:
        return set(np.flatnonzero(self.weights).tolist())

    def open_choices(self, one_pass: Pass) -> NextChoice:
        chance = generator(self.seed, 0)
        drawn: list[int] = []

        def next_choice() -> int | None:
            if not drawn:
                numbers = np.searchsorted(np.cumsum(self.weights), chance.random(DRAWN_AT_ONCE), side="right")
                drawn.extend(reversed(np.minimum(numbers, np.flatnonzero(self.weights)[-1]).tolist()))  # sums end just below 1
            return drawn.pop()

        return next_choice

    def cardinality(self) -> int:
        totals = [member.cardinality() for member, weight in zip(self.members, self.weights, strict=True) if weight]
        ends = [total != INFINITE for total in totals]
        if any(ends) if self.stops_on_empty else all(ends):
            return super().cardinality()
        return INFINITE


def checked_weights(weights: Sequence[float] | None, count: int) -> Array:
    """The weights of some datasets, which add up to 1.

    Raises:
        InvalidArgumentError: there are not as many, one is below 0, or all are 0.

    Example:
        >>> checked_weights([3, 1], 2).tolist()
        [0.75, 0.25]
    """
    each = [1.0] * count if weights is None else listed_numbers(weights, "weights")
    numbers = all(isinstance(python_number(weight), (int, float)) for weight in each)
    found = np.array([float_of(weight) for weight in each] if numbers else [], np.float64)
    if found.shape != (count,) or not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise InvalidArgumentError(
            f"sample_from_datasets was given the weights {shown(weights)} for {count} datasets; expected a number from 0 for each, not "
            "all 0"
        )
    return found / found.sum()
