"""Forecasts: how long a step of a worker and the messages of its closure take, on idle links and devices, without jitter and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simdist.cost.flops import Cost
from simdist.program.row_numbers import RowNumbers, spread_out
from simdist.program.step_iterator import StepBatch, leaf_of
from simdist.runtime.linked import ApplyAll, LinkedProgram, ReadGroups, ReadWithRows, RunKernel, TableRows
from simdist.runtime.linked_rows import ID_BYTES, sent_bytes
from simdist.runtime.simulated.lonely_call import SentUpdate, read_seconds, update_seconds
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World

__all__ = ["closure_figures"]


def closure_figures(world: World, linked: LinkedProgram, name: str, batches: Sequence[StepBatch] = ()) -> tuple[float, float]:
    """Seconds of one step on a worker, and seconds between two closures in which the worker has nothing to do.

    Args:
        world: where the worker is.
        linked: what a step runs.
        name: of the worker.
        batches: of a step, which say the rows of tables that it asks for; without them it asks for as many as it has ids.
    """
    task, priced = world.task(name), world.prices.of(linked)
    seconds, rows = 0.0, dict[int, RowNumbers]()
    for op in linked.operations:
        if isinstance(op, RunKernel):
            seconds += _seconds(task, priced.costs[op.number])
        elif isinstance(op, ReadGroups):
            seconds += read_seconds(world, task, _group_sizes(world, op))
        elif isinstance(op, ReadWithRows):
            rows |= {table.number: _rows_of(table, batches) for table in op.tables}
            seconds += read_seconds(world, task, _row_sizes(world, op, rows))
        elif isinstance(op, ApplyAll):
            seconds += update_seconds(world, task, _sent(world, op, priced, rows))
    return seconds, world.routes.latency_s(world.chief, task) + world.routes.latency_s(task, world.chief)


def _seconds(task: Task, cost: Cost) -> float:
    return cost.seconds if cost.seconds is not None else task.device.seconds(cost.flops, cost.bytes_moved)


def _rows_of(table: TableRows, batches: Sequence[StepBatch]) -> RowNumbers:
    """The rows of a table that a step asks for."""
    if any(kind != "batch" or number >= len(batches) for kind, number, _ in table.sources):
        return spread_out(table.rows.shape[0], table.ids.num_rows)
    return table.ids.numbers([leaf_of(batches[number], leaf) for _, number, leaf in table.sources])


def _group_sizes(world: World, op: ReadGroups) -> dict[str, float]:
    """The bytes of groups that each server sends."""
    sizes: dict[str, float] = {}
    for group, _, size_bytes in op.groups:
        owner = world.states.groups[group].task
        sizes[owner] = sizes.get(owner, 0.0) + size_bytes
    return sizes


def _row_sizes(world: World, op: ReadWithRows, rows: Mapping[int, RowNumbers]) -> dict[str, float]:
    """The bytes of groups, of parts of groups and of rows that each server sends; one that has none of them is not asked."""
    groups, sizes = world.states.groups, _group_sizes(world, op.dense)
    for part in op.parts:
        owner = groups[part.group].task
        sizes[owner] = sizes.get(owner, 0.0) + part.size_bytes
    for table in op.tables:
        for shard in table.shards:
            owner, count = groups[shard.group].task, rows[table.number].count_in(shard.first, shard.stop)
            if count:
                sizes[owner] = sizes.get(owner, 0.0) + count * (table.row_bytes + ID_BYTES)
    return sizes


def _sent(world: World, op: ApplyAll, priced: PricedProgram, rows: Mapping[int, RowNumbers]) -> list[SentUpdate]:
    """What each server gets of an update."""
    updates: list[SentUpdate] = []
    for part in op.parts:
        if part.task != world.chief.name:  # what is the chief's travels with the reply
            counts = [rows[operand.number].count_in(operand.first, operand.stop) for operand in part.rows]
            seconds = _seconds(world.task(part.task), priced.costs[part.number])
            updates.append(SentUpdate(part.task, sent_bytes(part, counts), seconds))
    return updates
