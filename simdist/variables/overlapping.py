"""Overlapping variables: those whose values are stored in a part of another variable, as shards are.

A variable and its parts are handles of the same cells. Outside of a step nothing follows from that. In a step an update of one comes
before a read of the other, and where the values of some variables are replaced (in `value_and_grad`), those of their parts are, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax

from simdist.program.operations import Reference, VariableHandle
from simdist.variables.shard_range import ShardRange

__all__ = ["Overlapping"]


class Overlapping(VariableHandle):
    """A variable that may be a part of another one.

    Attributes:
        container: of which it is a part; None of most variables.
        range_in_container: which part.
    """

    container: VariableHandle | None = None
    range_in_container: ShardRange

    def overlapping(self) -> Sequence[VariableHandle]:
        return () if self.container is None else (self.container,)

    def found_in(self, values: Mapping[Reference, jax.Array], read: Callable[[VariableHandle], jax.Array]) -> jax.Array | None:
        own = values.get(self.ref())
        if own is not None or self.container is None:
            return own
        whole = values.get(self.container.ref())
        return None if whole is None else self.range_in_container.of(whole)

    def put_into(self, values: dict[Reference, jax.Array], value: jax.Array) -> None:
        whole = None if self.container is None else values.get(self.container.ref())
        if whole is None or self.container is None:
            values[self.ref()] = value
        else:
            values[self.container.ref()] = whole.at[self.range_in_container.index].set(value)
