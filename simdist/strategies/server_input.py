"""The input of a `ParameterServerStrategy`: it distributes functions, by which each worker makes its dataset later.

Taught in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import InputContext, InputOptions, InputReplicationMode
from simdist.process_state import TaskLocal
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.worker_replicas import ReplicatedInput
from simdist.variables.variable import Variable

__all__ = ["first_pipeline", "input_of_workers", "making_dataset", "refuse_variable_of_dataset", "require_dataset"]

making_dataset: TaskLocal[str] = TaskLocal(str)
"""The worker that makes its dataset now; empty where none does."""


def refuse_variable_of_dataset(variable: Variable) -> None:
    """Refuse a variable that is made while a worker makes its dataset.

    Raises:
        InvalidArgumentError: a worker does.
    """
    worker = making_dataset.get()
    if worker:
        raise InvalidArgumentError(
            f"{variable.name!r} was made while {worker} made its dataset, and each worker would make one more. Make variables in "
            "strategy.scope(), before the dataset, and use them in its functions."
        )


def require_dataset(given: object) -> None:
    """Refuse what is no dataset.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(given, Dataset):
        raise TypeError(
            f"distribute_dataset takes an sd.Dataset; got {type(given).__name__}. Write sd.Dataset.from_tensor_slices(...).batch(n)."
        )


def input_of_workers(
    replicas: int,
    dataset_fn: Callable[[InputContext], Any],
    options: InputOptions | None,
    dataset: Dataset | None = None,
) -> DistributedFromFunction:
    """What the workers make, each for its replicas.

    Args:
        replicas: of each worker.
        dataset_fn, options, dataset: as of `DistributedFromFunction`.

    Raises:
        As `DistributedFromFunction`.
    """
    if replicas == 1:
        return DistributedFromFunction(dataset_fn, options, dataset)
    return ReplicatedInput(dataset_fn, options, dataset)


def first_pipeline(distributed: DistributedFromFunction, context: InputContext) -> Any:
    """The dataset that the first pipeline of a worker gives, as its function makes it.

    Args:
        distributed: what the workers make.
        context: of the worker, as of one pipeline.
    """
    count = context.num_replicas_in_sync
    if distributed.options.experimental_replication_mode is InputReplicationMode.PER_REPLICA:
        context = InputContext(context.num_input_pipelines * count, context.input_pipeline_id * count, count)
    return distributed.dataset_fn(context)
