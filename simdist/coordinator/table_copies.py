"""Copies of lookup tables: a worker that makes a dataset gets the tables of its strategy first, once in the life of its process."""

from __future__ import annotations

from simdist.runtime.delivery import Delivery
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
    missing = [table for table in closure.strategy.tables if table not in here]
    deliveries = [Delivery(engine.chief, worker.name, table.size_bytes, f"table {table.name}") for table in missing]
    engine.deliver(deliveries, f"the lookup tables of {engine.chief}", "setup")
    here.update(missing)
