"""The mains that save and restore together: those of a strategy that was launched on several tasks, or one program alone.

Every main saves, because the state of layers and metrics is each replica's own; the chief writes. What is restored the chief chooses, so
that all go on from one checkpoint, whatever each of them has seen of the directory.

Taught in lesson 09.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import HostArray
from simdist.program.saved_parts import SavedState
from simdist.program.scope import is_default
from simdist.runtime.base import Engine
from simdist.runtime.sleep import Clock, present_clock
from simdist.variables.state import Cell, task_of
from simdist.variables.variable import Variable

__all__ = ["Mains", "SavingStrategy"]


@runtime_checkable
class SavingStrategy(Protocol):
    """What is asked of the strategy whose variables are saved."""

    @property
    def engine(self) -> Engine: ...
    @property
    def program_task(self) -> str: ...
    @property
    def driven_tasks(self) -> list[str]: ...
    @property
    def is_chief(self) -> bool: ...
    @property
    def worker_index(self) -> int: ...
    def bytes_of_all(self, data: bytes, /) -> list[bytes]: ...
    def between_updates(self) -> AbstractContextManager[None]: ...


class Mains:
    """The mains that save together.

    Args:
        strategies: those whose variables are saved; none, where nothing of a cluster is.

    Attributes:
        is_chief: whether this program writes.
        worker: the index of this main.

    Raises:
        InvalidArgumentError: they belong to several clusters.
    """

    def __init__(self, strategies: Sequence[object]) -> None:
        found = [strategy for strategy in strategies if isinstance(strategy, SavingStrategy)]
        # A counter that was made outside of every scope belongs to this program, whatever cluster that drives.
        found = [strategy for strategy in found if not is_default(strategy)] or found
        self.strategy = found[0] if found else None
        self._strategies = found
        # Asked here, where the program runs: when a disk is done, nobody's environment says which task it is.
        self.is_chief = self.strategy is None or self.strategy.is_chief
        self.worker = 0 if self.strategy is None else self.strategy.worker_index
        if any(strategy.engine is not found[0].engine for strategy in found):
            raise InvalidArgumentError("The variables of one checkpoint belong to several clusters. Make a Checkpoint for each of them.")

    @contextmanager
    def between_updates(self) -> Iterator[None]:
        """Inside, the variables of each strategy are those of one moment of its training."""
        with ExitStack() as stack:
            for strategy in self._strategies:
                stack.enter_context(strategy.between_updates())
            yield

    @property
    def engine(self) -> Engine | None:
        """Whose disks are used; None where there is no cluster."""
        return None if self.strategy is None else self.strategy.engine

    @property
    def clock(self) -> Clock | None:
        """The one of the cluster; of variables that were made outside of every scope, the one that `sd.sleep` would take."""
        chosen = None if is_default(self.strategy) else self.engine
        return chosen or present_clock() or self.engine

    @property
    def now_s(self) -> float:
        """The virtual second; 0 where there is no clock."""
        return 0.0 if self.clock is None else self.clock.now

    @property
    def task(self) -> str:
        """The task that runs this program."""
        return "" if self.strategy is None else self.strategy.program_task

    @property
    def driven_tasks(self) -> list[str]:
        """The tasks without which this program cannot go on: its own, and those whose replicas it drives."""
        return [] if self.strategy is None else self.strategy.driven_tasks

    @property
    def drawing_tasks(self) -> Sequence[str]:
        """The tasks in which steps of this program draw random numbers."""
        engine = self.engine
        if engine is None:
            return []
        return engine.task_names if self.task == engine.chief else self.driven_tasks

    def holders_of(self, variable: Variable, cell: Cell) -> list[str]:
        """The tasks of this cluster that hold a cell of a variable; none, where this program itself holds it."""
        strategy = variable.placement.store.strategy
        is_here = isinstance(strategy, SavingStrategy) and strategy.engine is self.engine
        return list(dict.fromkeys(task_of(device) for device in cell.devices)) if is_here else []

    def held_by(self, variables: Iterable[Variable]) -> Counter[str]:
        """Bytes of the values of variables by the task that holds them; of copies that of this program counts, or else the first."""
        held = Counter({self.task: 0})
        for variable in variables:
            placement = variable.placement
            for cell in placement.cells[:1] if placement.spread == "copies" else placement.cells:
                holders = self.holders_of(variable, cell)
                held[self.task if self.task in holders or not holders else holders[0]] += cell.aval.size_bytes
        return held

    def sent_to(self, variables: Iterable[Variable]) -> Counter[str]:
        """Bytes of the values that this program sends to other tasks to change variables, by task: each that holds a copy gets one."""
        sent: Counter[str] = Counter()
        for variable in variables:
            for cell in variable.placement.cells:
                sent.update(dict.fromkeys(self.holders_of(variable, cell), cell.aval.size_bytes))
        del sent[self.task]
        return sent

    def of_chief(self, value: SavedState) -> SavedState:
        """What the chief says; all mains have to ask."""
        return value if self.strategy is None else json.loads(self.strategy.bytes_of_all(json.dumps(value).encode())[0])

    def all_of(self, arrays: Mapping[str, HostArray], state: SavedState) -> tuple[list[dict[str, HostArray]], list[SavedState]]:
        """What each main has, in the order of the workers: arrays by path, and plain data."""
        packed = _packed(arrays, state)
        found = [packed] if self.strategy is None else self.strategy.bytes_of_all(packed)
        unpacked = [_unpacked(data) for data in found]
        return [arrays for arrays, _ in unpacked], [state for _, state in unpacked]


def _packed(arrays: Mapping[str, HostArray], state: SavedState) -> bytes:
    kinds = {path: [array.shape, str(array.dtype)] for path, array in arrays.items()}
    head = json.dumps({"arrays": kinds, "state": state}).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(array.tobytes() for array in arrays.values())


def _unpacked(data: bytes) -> tuple[dict[str, HostArray], SavedState]:
    at = 8 + int.from_bytes(data[:8], "little")
    head = cast("dict[str, Any]", json.loads(data[8:at]))
    arrays: dict[str, HostArray] = {}
    for path, (shape, dtype) in head["arrays"].items():
        size = int(np.prod(shape, dtype=np.int64))
        arrays[path] = np.frombuffer(data, np.dtype(dtype), size, at).reshape(shape)
        at += size * np.dtype(dtype).itemsize
    return arrays, head["state"]
