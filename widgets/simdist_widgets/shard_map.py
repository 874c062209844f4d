"""Where every shard of every variable lives, as one column of blocks per task.

A block's height is its bytes, always, on one scale for all tasks, so that the balance is seen at a glance; pointing at
a block shows its facts and picks out the other shards of the same variable. What is said about the balance leaves out a
chief that holds no parameters: its counts and metrics lie there on purpose. From `HEAT_MAP_FROM` tasks on it is a heat map, one cell per
task (heat_map.py), and so it is with more shards than `MOST_BLOCKS`, of which none could be pointed at. The widget is a snapshot.

Taught in lesson 00.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import traitlets

from simdist_widgets.base import BaseWidget
from simdist_widgets.heat_map import HEAT_MAP_FROM, color_cells, heat_figure, heat_map
from simdist_widgets.host_page import text_of
from simdist_widgets.shard_colors import checked_color_by, color_shards, traffic_of
from simdist_widgets.shard_figure import KIND_COLORS, balance_text, shard_figure

FIELDS = (
    "variable", "shape", "dtype", "shard", "num_shards", "task", "row_start", "row_stop", "size_bytes", "kind",
)  # fmt: skip
MOST_BLOCKS = 5000  # shards, each of which goes to the front end by itself
VARIABLE = ("kind", "variable", "slot_of", "namesake")  # what shards of one variable have in common


@runtime_checkable
class PlacementRecord(Protocol):
    """One shard of one variable on one task; what ``strategy.placements()`` returns a list of."""

    @property
    def variable(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shard(self) -> int: ...
    @property
    def num_shards(self) -> int: ...
    @property
    def task(self) -> str: ...
    @property
    def row_start(self) -> int: ...
    @property
    def row_stop(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def kind(self) -> str: ...


@runtime_checkable
class Placed(Protocol):
    """A strategy, or a variable of one."""

    def placements(self) -> Iterable[PlacementRecord]: ...


class ShardMap(BaseWidget):
    """The placement of a strategy's variables.

    Args:
        source: a strategy with ``placements()``, or a list of records with the attributes of `PlacementRecord`; where a record also has
            `axis`, its rows are counted along that one, where it has `slot_of`, that variable is named, and where it has `namesake`,
            variables of one name are distinguished by it.
        color_by: what the colour of a block shows: "kind" (the default), "traffic" (bytes that steps have read and updated), "version" (how
            often it has changed) or "staleness" (mean of the updates of its server). All but "kind" need the traffic of the shards, which
            the cards show then: a `ParameterServerStrategy` knows it, and `strategy.traffic()` is a list of such records.

    Raises:
        TypeError: `source` is neither, or its records have no traffic where colours show it.
        InvalidArgumentError: no such `color_by`.
        FailedPreconditionError: nothing travels in the engine of this strategy.

    Example:
        >>> from types import SimpleNamespace
        >>> record = SimpleNamespace(variable="kernel", shape=(4, 2), dtype="float32", shard=0, num_shards=1,
        ...                          task="ps:0", row_start=0, row_stop=4, size_bytes=32, kind="parameter")
        >>> ShardMap([record])
        ShardMap(1 task, 1 variable, 1 shard, 32 bytes)
    """

    page_name = "shard_map"
    page_traits = ("header",)
    _esm = text_of("shard_map.js")
    _css = text_of("shard_map.css")

    header = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, color_by: str = "kind") -> None:
        is_colored = checked_color_by(color_by) != "kind"
        records = source.traffic() if is_colored and hasattr(source, "traffic") else _records(source)
        shards = [_as_dict(record) | (traffic_of(record) if is_colored else {}) for record in records]
        shards.sort(key=lambda shard: _kind_order(shard["kind"]))  # stable: the given order within a kind
        tasks = sorted({shard["task"] for shard in shards}, key=_task_order)
        used = sorted({shard["kind"] for shard in shards}, key=_kind_order)
        kinds = [{"name": kind, "color": KIND_COLORS.get(kind, KIND_COLORS["other"])} for kind in used]
        balanced = _balanced(tasks, shards)
        heat = heat_map(tasks, shards, balanced) if len(tasks) >= HEAT_MAP_FROM or len(shards) > MOST_BLOCKS else None
        header = {
            "tasks": tasks,
            "balanced": balanced,
            "num_variables": len({tuple(shard[field] for field in VARIABLE) for shard in shards}),
            "num_shards": len(shards),
            "size_bytes": sum(shard["size_bytes"] for shard in shards),
            "balance": balance_text(tasks, shards, balanced),
            "kinds": kinds,
            "shards": [] if heat else shards,
            "heat": heat,
        }
        if is_colored and heat:
            color_cells(heat, shards, color_by)
        elif is_colored:
            header["scale"] = color_shards(shards, color_by)
        super().__init__(header=header)

    def picture(self) -> Any:
        """The map as a matplotlib ``Figure``."""
        if self.header["heat"]:
            return heat_figure(self.header["heat"], self.header["balance"])
        return shard_figure(self.header["tasks"], self.header["shards"], self.header["balanced"], self.header.get("scale"))

    def __repr__(self) -> str:
        header = self.header
        counts = [(len(header["tasks"]), "task"), (header["num_variables"], "variable"), (header["num_shards"], "shard")]
        parts = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts]
        return f"ShardMap({', '.join(parts)}, {header['size_bytes']} bytes)"


def _records(source: Any) -> Iterable[Any]:
    if isinstance(source, Placed):
        source = source.placements()
    elif not isinstance(source, (list, tuple)):
        raise TypeError(
            f"ShardMap: expected a strategy with placements() or a list of placement records, "
            f"got {type(source).__name__}; pass the strategy whose scope made the variables."
        )
    return source


def _as_dict(record: Any) -> dict[str, Any]:
    missing = [name for name in FIELDS if not hasattr(record, name)]
    if missing:
        raise TypeError(
            f"ShardMap: a placement record has no {', '.join(missing)} (it is {type(record).__name__}); "
            f"each record needs {', '.join(FIELDS)}."
        )
    numbers = ("shard", "num_shards", "row_start", "row_stop", "size_bytes")
    texts = ("variable", "dtype", "task", "kind")
    fields: dict[str, Any] = {name: str(getattr(record, name)) for name in texts}
    fields |= {name: int(getattr(record, name)) for name in numbers}
    fields |= {"axis": int(getattr(record, "axis", 0)), "slot_of": str(getattr(record, "slot_of", ""))}
    fields["namesake"] = int(getattr(record, "namesake", 0))
    return fields | {"shape": [int(size) for size in record.shape]}


def _balanced(tasks: Sequence[str], shards: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tasks between which variables are shared: all but a chief without parameters; all where there is no other."""
    with_parameters = {shard["task"] for shard in shards if shard["kind"] == "parameter"}
    chosen = [task for task in tasks if task in with_parameters or task.partition(":")[0] != "chief"]
    return chosen or list(tasks)


def _kind_order(kind: str) -> tuple[int, str]:
    known = list(KIND_COLORS)
    return (known.index(kind) if kind in known else len(known), kind)


def _task_order(task: str) -> tuple[str, int, str]:
    """By job, then by number: ps:2 before ps:10."""
    job, _, rest = task.partition(":")
    digits = rest.split("/")[0]
    return (job, int(digits) if digits.isdigit() else -1, rest)
