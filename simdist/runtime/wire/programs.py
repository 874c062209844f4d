"""Linked programs as bytes: what a task needs in order to run one, and nothing else.

Of a `LinkedProgram` the driver keeps the traced program, the layout's version and the function that rebuilds results. A task gets the
operations, with kernels by their digests; the constants; the types of the slots. Groups are numbers already; of a collective the shapes
travel, and not how the strategy wants it to be carried out; nor do the accounts of which cells are read and updated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.program.collective import Collective
from simdist.program.kernels import Kernel
from simdist.program.row_numbers import HostIds
from simdist.program.values import Aval, Bundle, BundleType, num_bytes
from simdist.runtime.linked import (
    Apply,
    ApplyAll,
    CheckFinite,
    GroupPart,
    LinkedCollective,
    LinkedOperation,
    LinkedProgram,
    MakeKey,
    ReadGroups,
    ReadWithRows,
    RowOperand,
    RowShard,
    RowSum,
    RunKernel,
    Slot,
    TableRows,
    TakeBatch,
)
from simdist.runtime.wire.codec import decode, encode

__all__ = ["RemoteProgram", "decode_program", "encode_program"]


@dataclass(frozen=True, eq=False)
class RemoteProgram:
    """A linked program as a task knows it.

    Attributes:
        name: of the step, for people.
        operations, constants, result, slots: as of `LinkedProgram`.
    """

    name: str
    operations: tuple[LinkedOperation, ...]
    constants: tuple[tuple[Slot, Bundle], ...]
    result: Slot
    slots: tuple[BundleType, ...]


def encode_program(linked: LinkedProgram, digest: Callable[[Kernel], str]) -> bytes:
    """The message of a linked program.

    Args:
        linked: which.
        digest: by which a task knows a kernel.

    Raises:
        InvalidArgumentError: something in it is no data.
    """
    operations = [_operation(op, digest) for op in linked.operations]
    constants = [(slot, bundle.arrays) for slot, bundle in linked.constants]
    slots = [[_plain(aval) for aval in avals] for avals in linked.slots]
    return encode(("program", linked.program.name, operations, constants, linked.result, slots))


def decode_program(data: bytes, kernels: Mapping[str, Kernel]) -> RemoteProgram:
    """The program of a message.

    Args:
        data: the message.
        kernels: that this task was sent, by their digests.

    Raises:
        InvalidArgumentError: it is no sound message of a program, or one of its kernels has not come.
        FailedPreconditionError: another version of the format.
    """
    content: Any = decode(data)
    try:
        kind, name, operations, constants, result, slots = content
        if kind != "program":
            raise ValueError(f"a message of kind {kind!r}")
        types = tuple([_avals(avals) for avals in slots])
        decoded = _Operations(types, kernels).decoded(operations)
        bundles = tuple([(slot, Bundle(types[slot], arrays)) for slot, arrays in constants])
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise InvalidArgumentError(
            f"A message was to be a program, but cannot be one: {error!r}. Send what encode_program gives."
        ) from error
    return RemoteProgram(name, decoded, bundles, result, types)


def _plain(aval: Aval) -> tuple[str, tuple[int, ...]]:
    return aval.dtype, aval.shape


def _avals(plain: Any) -> BundleType:
    return tuple([Aval(tuple(shape), dtype) for dtype, shape in plain])


def _plain_all(avals: BundleType) -> list[tuple[str, tuple[int, ...]]]:
    return [_plain(aval) for aval in avals]


def _table(table: TableRows, digest: Callable[[Kernel], str]) -> tuple[Any, ...]:
    shards = [(shard.group, shard.position, shard.first, shard.stop, _plain_all(shard.state)) for shard in table.shards]
    ids = table.ids
    return table.number, (ids.name, ids.num_rows, digest(ids.kernel), ids.padded), table.sources, shards, _plain(table.rows), table.output


def _row_operands(part: Apply) -> list[tuple[Any, ...]]:
    return [(operand.number, operand.slot, _plain(operand.rows), operand.first, operand.stop) for operand in part.rows]


def _change(part: Apply, digest: Callable[[Kernel], str]) -> tuple[Any, ...]:
    sums = [(total.slot, _plain_all(total.given)) for total in part.sums]
    forms = [] if part.of_rows is None else [_change(part.of_rows, digest)]
    what = part.group, part.task, digest(part.kernel), _plain_all(part.state), part.operands
    return *what, _row_operands(part), sums, forms, part.of_each


def _operation(op: LinkedOperation, digest: Callable[[Kernel], str]) -> tuple[Any, ...]:
    match op:
        case RunKernel():
            return "run", digest(op.kernel), op.slots, op.batch, op.host, op.outputs, op.moves_only
        case ReadGroups():
            return "read", op.groups
        case ReadWithRows():
            parts = [(part.group, part.positions, part.size_bytes, _plain_all(part.state), part.output) for part in op.parts]
            return "read rows", op.dense.groups, parts, [_table(table, digest) for table in op.tables]
        case ApplyAll():
            return "update", [_change(part, digest) for part in op.parts]
        case TakeBatch():
            return "batch", op.iterator, op.position
        case MakeKey():
            return "key", op.salt, op.position
        case LinkedCollective():
            collective = op.collective
            said = (
                collective.kind,
                collective.num_replicas,
                collective.label,
                collective.averaged,
                collective.is_for_update,
                collective.number,
            )
            return "collective", *said, op.operands, op.output
        case CheckFinite():
            return "check", op.slot, op.message


class _Operations:
    """Operations from their plain form; what follows from the types of the slots was not sent."""

    def __init__(self, slots: tuple[BundleType, ...], kernels: Mapping[str, Kernel]) -> None:
        self.slots = slots
        self.kernels = kernels
        self.num_kernels = 0

    def decoded(self, operations: Any) -> tuple[LinkedOperation, ...]:
        return tuple([self._one(*op) for op in operations])

    def _one(self, kind: str, *rest: Any) -> LinkedOperation:
        match kind:
            case "run":
                digest, slots, batch, host, outputs, moves_only = rest
                reads, writes = (tuple([self.slots[slot] for slot in own]) for own in (slots, outputs))
                return RunKernel(self._number(), self.kernels[digest], reads, writes, slots, batch, host, outputs, moves_only)
            case "read":
                return ReadGroups(*rest)
            case "read rows":
                groups, given, tables = rest
                parts = [GroupPart(group, positions, size, _avals(state), output) for group, positions, size, state, output in given]
                return ReadWithRows(ReadGroups(groups), tuple(parts), tuple([self._table(*table) for table in tables]))
            case "update":
                return ApplyAll(tuple([self._part(*part) for part in rest[0]]))
            case "batch":
                return TakeBatch(*rest)
            case "key":
                return MakeKey(*rest)
            case "collective":
                kind, num_replicas, label, averaged, is_for_update, number, operands, output = rest
                avals = self.slots[operands], self.slots[output]
                collective = Collective(kind, *avals, num_replicas, None, label, averaged, is_for_update, number=number)
                return LinkedCollective(collective, operands, output)
            case "check":
                return CheckFinite(*rest)
            case _:
                raise ValueError(f"an operation {kind!r}")

    def _table(self, number: int, ids: Any, sources: Any, shards: Any, rows: Any, output: Slot) -> TableRows:
        name, num_rows, digest, padded = ids
        decoded = tuple([RowShard(group, position, first, stop, _avals(state)) for group, position, first, stop, state in shards])
        (aval,) = _avals([rows])
        return TableRows(number, HostIds(name, num_rows, self.kernels[digest], padded), sources, decoded, aval, output)

    def _part(
        self, group: int, task: str, digest: str, state: Any, operands: Slot, rows: Any, sums: Any, forms: Any, of_each: bool
    ) -> Apply:
        given = self.slots[operands]
        decoded = tuple([RowOperand(number, slot, _avals([aval])[0], first, stop) for number, slot, aval, first, stop in rows])
        what = self._number(), group, task, self.kernels[digest], _avals(state), given, operands, num_bytes(given)
        of_rows = self._part(*forms[0]) if forms else None
        decoded_sums = tuple([RowSum(slot, _avals(avals)) for slot, avals in sums])
        return Apply(*what, rows=decoded, sums=decoded_sums, of_rows=of_rows, of_each=of_each)

    def _number(self) -> int:
        self.num_kernels += 1
        return self.num_kernels - 1
