"""The state of variables: cells in groups, on tasks.

A *cell* is one stored piece of a variable: the whole of it, or one shard. A *group* is the cells on one task that one
update changes together, with the optimizer's slots; an update makes one new version of the whole group. Here groups are
identities; engines keep their versions (`simdist.variables.layout.GroupVersions`).

Invariants: a cell belongs to one group; a group belongs to one task; a group that was lost with its task has no version, and
a read of it raises `UnavailableError`.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.errors import UnavailableError
from simdist.program.values import Aval
from simdist.variables.placement_record import PlacementRecord
from simdist.variables.shard_range import ShardRange

__all__ = ["Cell", "Group", "Owner", "owner_of", "task_of"]


def task_of(device: str) -> str:
    """The task of a device: ``worker:0`` of ``worker:0/gpu:1``."""
    return device.partition("/")[0]


class Group:
    """Cells of one task, or of several that hold equal copies, which change together.

    Only an identity: its versions, and the devices that hold them, are kept by the engine (`GroupVersions`).

    Attributes:
        number: which group it is, among all of a cluster.
        task: the task that holds it; of several copies, the task of the first one.
    """

    __slots__ = ("cells", "number", "task")

    def __init__(self, task: str, cells: Sequence[Cell]) -> None:
        self.task = task
        self.cells = list(cells)
        self.number = -1
        for position, cell in enumerate(self.cells):
            cell.group, cell.position = self, position

    @property
    def avals(self) -> tuple[Aval, ...]:
        return tuple([cell.aval for cell in self.cells])

    @property
    def kept(self) -> list[Cell]:
        """The cells that hold memory: all that were not dropped."""
        return [cell for cell in self.cells if not cell.is_dropped]

    def lie_at(self, devices: tuple[str, ...]) -> None:
        """Note that these devices hold the cells from now on."""
        for cell in self.cells:
            cell.devices = devices

    def lost_error(self) -> UnavailableError:
        """The error for a read or an update of this group after its task died."""
        names = ", ".join(dict.fromkeys(cell.name for cell in self.cells))
        return UnavailableError(
            f"{self.task} has lost its variables ({names}): it crashed after they were made. Build the model again, and "
            "restore a checkpoint into it if there is one."
        )


class Cell:
    """One stored piece of a variable.

    Attributes:
        name: of the variable.
        task: the task that holds it; of several copies, the task of the first one.
        devices: the devices that hold it, or held it last: a task, or one of its devices (``worker:0/gpu:1``); more than one for
            equal copies.
        replica: the local rank of the replica whose value it is; None where it is not replica-local.
        range: of a shard, which part of the whole variable it is; None for a piece that is no shard.
        kind: "parameter", "slot" or "metric".
        slot_of: of an optimizer's slot, the name of the variable that it belongs to.
        is_dropped: whether nobody uses it any more; it holds no memory then.
    """

    __slots__ = ("aval", "devices", "group", "is_dropped", "kind", "name", "position", "range", "replica", "slot_of", "task")

    def __init__(
        self,
        name: str,
        aval: Aval,
        task: str,
        range: ShardRange | None = None,
        kind: str = "parameter",
        devices: Sequence[str] = (),
        replica: int | None = None,
        slot_of: str = "",
    ) -> None:
        self.name = name
        self.aval = aval
        self.task = task
        self.devices = tuple(devices) or (task,)
        self.replica = replica
        self.range = range
        self.kind = kind
        self.slot_of = slot_of
        self.is_dropped = False
        self.group: Group
        self.position = 0

    @property
    def rows(self) -> tuple[int, int] | None:
        """First and one-past-last row of the whole variable, of a shard along axis 0; otherwise None."""
        return None if self.range is None or self.range.axis else (self.range.start, self.range.stop)

    def record(self) -> PlacementRecord:
        """The line of a shard map for a cell that belongs to no variable of its own: an optimizer's slot."""
        whole = ShardRange(0, 0, self.aval.shape[0] if self.aval.shape else 1, self.aval.shape[0] if self.aval.shape else 1)
        part, shape = self.range or whole, self.aval.shape if self.range is None else self.range.whole_shape(self.aval.shape)
        numbers = (part.number, part.count, self.task, part.start, part.stop, self.aval.size_bytes)
        return PlacementRecord(self.name, shape, self.aval.dtype, *numbers, self.kind, part.axis, self.slot_of)


# Who changes a cell: a task, and where replicas have values of their own, which of them.
Owner = tuple[str, int | None]


def owner_of(cell: Cell) -> Owner:
    """The owner of a cell: the task or the replica that changes it."""
    return cell.task, cell.replica
