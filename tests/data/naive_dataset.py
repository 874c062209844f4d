"""tf.data on Python lists: the reference that pipelines are compared with. Slow, short, and written independently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

LIMIT = 60  # elements looked at of a pipeline that never ends


@dataclass(frozen=True)
class Step:
    name: str
    arguments: tuple[Any, ...]

    def on_dataset(self, dataset: Any) -> Any:
        return getattr(dataset, self.name)(*self.arguments)

    def on_list(self, items: list[Any]) -> list[Any]:
        return STEPS[self.name](items, *self.arguments)


def shard(items: list[Any], num_shards: int, index: int) -> list[Any]:
    return [item for position, item in enumerate(items) if position % num_shards == index]


def batch(items: list[Any], size: int, drop_remainder: bool) -> list[Any]:
    parts = [items[at : at + size] for at in range(0, len(items), size)]
    return [part for part in parts if len(part) == size or not drop_remainder]


STEPS: dict[str, Any] = {
    "take": lambda items, n: items if n < 0 else items[:n],
    "skip": lambda items, n: [] if n < 0 else items[n:],
    "shard": shard,
    "repeat": lambda items, n: items * n,
    "prefetch": lambda items, n: items,
    "cache": lambda items: items,
    "map": lambda items, fn: [fn(item) for item in items],
    "filter": lambda items, fn: [item for item in items if fn(item)],
}


def triple(x: Any) -> Any:
    return x * 3


def is_not_third(x: Any) -> Any:
    return x % 3 != 1


def step(name: str, *arguments: Any) -> Any:
    return st.builds(Step, st.just(name), st.tuples(*arguments))


row_steps = st.one_of(
    step("take", st.integers(-1, 12)),
    step("skip", st.integers(-1, 12)),
    st.integers(1, 4).flatmap(lambda n: step("shard", st.just(n), st.integers(0, n - 1))),
    step("repeat", st.integers(0, 3)),
    step("prefetch", st.integers(-1, 3)),
    step("cache"),
    step("map", st.just(triple)),
    step("filter", st.just(is_not_third)),
)
element_steps = row_steps.filter(lambda s: s.name != "filter")
sizes = st.integers(0, 20)
