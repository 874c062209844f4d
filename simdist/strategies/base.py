"""The idea of a strategy: where variables lie, where steps run, and how replicas combine.

A strategy owns the store of its variables and says, for each new variable, on which tasks its cells go. Everything else
(reading, updating, what that costs) follows from the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, runtime_checkable

from simdist.data import Dataset
from simdist.errors import UnavailableError
from simdist.input import InputContext, InputOptions
from simdist.lookup.worker_copies import TableCopies, holding_tables
from simdist.program.arrays import Array, Tree
from simdist.program.function import StepFunction
from simdist.program.scope import opened
from simdist.program.values import aval_of
from simdist.randomness import derive_seed
from simdist.runtime.cluster import Cluster
from simdist.runtime.launched_main import launched_main
from simdist.runtime.store import Store
from simdist.strategies.absent_names import OF_STRATEGIES, WithAbsentNames
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.extended import StrategyExtended
from simdist.strategies.given_cluster import require_cluster
from simdist.strategies.operations import ReplicaOperations
from simdist.strategies.placements import placement_records
from simdist.strategies.placing import hold_table, place_new
from simdist.strategies.reduction import ReduceOp
from simdist.strategies.values_from_function import ValueContext, values_from_function
from simdist.variables.placement import Placement
from simdist.variables.placement_record import PlacementRecord
from simdist.variables.reachability import KnownVariables
from simdist.variables.state import Cell
from simdist.variables.variable import Variable

__all__ = ["Strategy", "TrainingStrategy"]


@runtime_checkable
class TrainingStrategy(Protocol):
    """What a strategy is: it owns variables, and combines what the replicas compute in steps."""

    @property
    def num_replicas_in_sync(self) -> int: ...
    def scope(self) -> AbstractContextManager[Any]: ...
    def place(self, variable: Variable, value: Array) -> Placement[Variable]: ...
    def run(self, fn: Callable[..., Tree], args: Sequence[Tree] = (), kwargs: dict[str, Tree] | None = None) -> Tree: ...
    def reduce(self, reduce_op: ReduceOp | str, value: Tree, axis: int | Sequence[int] | None) -> Tree: ...
    def gather(self, value: Tree, axis: int) -> Tree: ...
    def local_results(self, value: Tree) -> tuple[Tree, ...]: ...
    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any], options: InputOptions | None = None) -> Any: ...
    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Tree]) -> Tree: ...


class Strategy(ReplicaOperations, WithAbsentNames):
    """Common to all strategies: the class of each of them, for annotations and `isinstance`.

    Args:
        cluster: where it runs; None makes one of this machine alone.

    Raises:
        TypeError: `cluster` is something else.
        FailedPreconditionError: none was given in the program of a session, which could not stop another cluster.

    Example:
        >>> import simdist as sd
        >>> isinstance(sd.MirroredStrategy(2), sd.Strategy), isinstance(sd.get_strategy(), sd.Strategy)
        (True, True)
    """

    absent_names = OF_STRATEGIES
    moves_rows: bool = False
    is_served = False
    """Whether variables are on servers, one value for all replicas."""
    averages_updates: bool = False
    """Whether the updates of several workers are averaged before they count, and then count as one."""
    steps_overlap: bool = False
    """Whether several workers take steps of their own, at the same time."""

    def __init__(self, cluster: Cluster | None) -> None:
        require_cluster(cluster, type(self).__name__)
        self.cluster = cluster if cluster is not None else self.own_cluster()
        self.engine = self.cluster.engine
        self.store = Store(self.engine, self._observed, self)
        self.known_variables: KnownVariables[Variable] = KnownVariables()
        self.tables: list[TableCopies] = []
        self._seeds_drawn = 0
        main = launched_main.get()
        self._program_task = self.engine.chief if main is None else main.task
        self._program = self.engine.process(self._program_task)
        if main is not None:
            # A launched main is a process of its own: when it fails, its variables are gone, and another takes its place.
            main.endings.append(self._main_ended)

    def require_program(self) -> None:
        """Refuse to go on for a program whose process has crashed.

        Raises:
            UnavailableError: it has.
        """
        if not self._program.alive:
            self.engine.require_usable("A step was taken")  # code that runs on after its process has died is ended here
            raise UnavailableError(
                f"{self._program_task}, whose process this program is, has crashed. Start again on a new cluster, cluster.fresh(), or "
                "with a new strategy once the chief has been started again."
            )

    def _main_ended(self, error: BaseException | None) -> None:
        if error is not None:
            self.store.layout.release_all()

    def between_steps(self) -> None:
        """The program is about to read or to change variables outside of every step."""

    def between_updates(self) -> AbstractContextManager[None]:
        """Inside, the variables are those of one moment of the training: no update is in some of them only."""
        return nullcontext()

    def own_cluster(self) -> Cluster:
        """A cluster of this machine alone, for a strategy that was given none."""
        return Cluster({"worker": 1})

    def _observed(self, name: str) -> None:
        self.engine.trace.observed()
        self.engine.trace.instant(self.engine.chief, "observe", name, self.engine.now)

    @property
    def seeding_task(self) -> str | None:
        """The task as which all programs of this strategy draw the seeds of what they make; None: each as its own."""
        return None

    def next_seed(self) -> int:
        """A seed for something that was made without one, in the order of making."""
        self._seeds_drawn += 1
        return 1 + derive_seed(self.cluster.seed, "strategy", self._seeds_drawn) % 1_000_000_000

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.num_replicas_in_sync} in sync, {len(self.known_variables.all())} variables, on {self.cluster!r})"
        )

    # -- scope ----------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Variables, models, optimizers and metrics that are made inside belong to this strategy.

        Raises:
            FailedPreconditionError: another strategy's scope is open.
        """
        with opened(self), holding_tables(self):
            yield self

    def run_step(self, fn: StepFunction, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Run a step that was called directly, and return its values.

        Raises:
            TypeError: the steps of this strategy run on workers, where a coordinator sends them.
        """
        raise TypeError(
            f"A step was called directly under {type(self).__name__}, whose steps run on workers. "
            "Use ClusterCoordinator(strategy).schedule(fn, args=...)."
        )

    # -- variables ------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> list[Variable]:
        """The variables that were made in its scope and can still be reached otherwise; Python's garbage is collected to find them."""
        return self.known_variables.reachable()

    def create(self, variable: Variable, value: Any) -> None:
        """Place a new variable, with this first value."""
        place_new(self, variable, value)

    def place(self, variable: Variable, value: Any) -> Placement[Variable]:
        """The cells of a new variable."""
        return self.whole(variable, value, self.default_device)

    colocated_with: Variable | None = None
    has_worker_copies = False

    @property
    def launched(self) -> bool:
        """Whether every worker has a main of its own that drives it."""
        return False

    @property
    def num_workers(self) -> int:
        """The tasks that have replicas."""
        return 1

    @property
    def present_workers(self) -> Sequence[int]:
        """Which of the tasks that had replicas at first have some now."""
        return range(self.num_workers)

    @property
    def workers_at_first(self) -> int:
        """The tasks that had replicas when the strategy was made."""
        return self.num_workers

    @property
    def worker_index(self) -> int:
        """The index of the worker that this program drives; 0 where it drives all."""
        return 0

    @property
    def devices(self) -> list[str]:
        """The devices that compute."""
        return [self.default_device]

    @property
    def parameter_devices(self) -> list[str]:
        """The devices that hold variables."""
        return self.devices

    @property
    def is_chief(self) -> bool:
        """Whether this program saves checkpoints."""
        return True

    @property
    def program_task(self) -> str:
        """The task that runs the program of this strategy: that of a launched main, or the chief."""
        return self._program_task

    @property
    def driven_tasks(self) -> list[str]:
        """The tasks without which this program cannot go on: its own, and those whose replicas it drives."""
        return [self._program_task]

    def bytes_of_all(self, data: bytes) -> list[bytes]:
        """What each launched main has, in the order of the workers: every one has to call it. Here one program drives all."""
        return [data]

    def update_copies(self, variable: Variable, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], group: bool) -> Any:
        """See `StrategyExtended.update`."""
        result = fn(variable, *args, **kwargs)
        return None if group else result

    @property
    def default_device(self) -> str:
        """The task that holds variables which lie in one place."""
        return "worker:0" if "worker:0" in self.engine.task_names else self.engine.chief

    def whole(self, variable: Variable, value: Any, task: str, kind: str = "parameter") -> Placement[Variable]:
        """A placement of one cell."""
        cell = Cell(variable.name, aval_of(value), task, kind=kind)
        self.store.layout.add(cell, value)
        return Placement([cell], self.store)

    def placements(self) -> list[PlacementRecord]:
        """Where every piece of every variable lies, and every copy of a lookup table: the shard map.

        The step counter and the learning rate of an optimizer have a record for each task that keeps one: that where the optimizer was
        built, and each server that applies updates with it, as a server counts its own updates.
        """
        return placement_records(self.known_variables.all(), self.store.layout.cells(), self.tables)

    # -- lookup tables --------------------------------------------------------------------------------------------

    def hold_table(self, table: TableCopies) -> None:
        """Note that a lookup table was made in the scope, or has other entries than before."""
        hold_table(self.engine, self.tables, table)

    def tasks_with_tables(self) -> list[str]:
        """The tasks that have a copy of each lookup table now."""
        return [self.default_device]

    # -- input ----------------------------------------------------------------------------------------------------

    def distribute_datasets_from_function(self, dataset_fn: Callable[[InputContext], Any], options: InputOptions | None = None) -> Any:
        """Datasets that each input pipeline makes by itself from an `InputContext`; their batches are not split.

        Args:
            dataset_fn: the function; it is called once for each pipeline.
            options: `InputOptions`: whether each worker has a pipeline, or each replica.

        Raises:
            TypeError: not a function, or `options` are something else.
            InvalidArgumentError: the pipeline is to run on a device.
        """
        if not callable(dataset_fn):
            raise TypeError(f"distribute_datasets_from_function takes a function of an InputContext; got {type(dataset_fn).__name__}.")
        return DistributedFromFunction(dataset_fn, options)

    def numpy_dataset(self, arrays: Any) -> Dataset:
        """A dataset with one element for each row of the arrays."""
        return Dataset.from_tensor_slices(arrays)

    def distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """A value for each replica: ``value_fn(context)`` is called with each `ValueContext` in turn.

        An array of NumPy is as it was when it was returned, whatever becomes of it later.

        Example:
            >>> import simdist as sd
            >>> sd.MirroredStrategy(2).distribute_values_from_function(lambda context: 10 * context.replica_id_in_sync_group)
            PerReplica(0, 10)
        """
        return values_from_function(value_fn, self.ranks, self.num_replicas_in_sync)

    @property
    def extended(self) -> StrategyExtended:
        """What library authors need: updating variables, where things lie."""
        return StrategyExtended(self)

    experimental_make_numpy_dataset = numpy_dataset
    experimental_distribute_datasets_from_function = distribute_datasets_from_function
    experimental_distribute_values_from_function = distribute_values_from_function
