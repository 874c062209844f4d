"""Copies of lookup tables: a worker that makes a dataset gets the tables of its strategy first, once in the life of its process."""

from __future__ import annotations

from simdist.runtime.work import Worker, running_closure
from simdist.strategies.parameter_server import ParameterServerStrategy

__all__ = ["bring_tables"]

TABLES = "lookup tables"  # in the memory of a worker: those that it has


def bring_tables(worker: Worker) -> None:
    """Copy the lookup tables of the strategy whose closure runs from the chief to this worker, which waits for them.

    Raises:
        UnavailableError: the chief or the worker has died on the way.
    """
    closure = running_closure.get()
    if closure is None or not isinstance(closure.strategy, ParameterServerStrategy):
        return
    engine, here = closure.strategy.engine, worker.local.setdefault(TABLES, set[object]())
    for table in closure.strategy.tables:
        if table not in here:
            began_s = engine.now
            engine.copy(engine.chief, worker.name, table.size_bytes, f"the lookup table {table.name}")
            here.add(table)
            engine.waited(worker.name, "setup", f"table {table.name}", began_s, table.size_bytes)
