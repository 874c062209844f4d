"""What a `dataset_fn` learns about its pipeline: which one it builds, of how many, for how many replicas; and how input is fetched.

Taught in lesson 08.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from simdist.arguments import flag, optional_flag, whole_number
from simdist.errors import InvalidArgumentError

__all__ = ["InputContext", "InputOptions", "InputReplicationMode", "checked_options", "require_common_pipeline"]


@dataclass(frozen=True)
class InputContext:
    """Which one of the input pipelines a function builds; read-only.

    Args:
        num_input_pipelines: pipelines that are built, as a rule one per worker.
        input_pipeline_id: which of them this one is, from 0.
        num_replicas_in_sync: replicas that take a step together, over all workers.

    Raises:
        InvalidArgumentError: the id is not one of the pipelines.

    Example:
        >>> context = InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
        >>> context.get_per_replica_batch_size(64)
        16
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def __post_init__(self) -> None:
        whole_number(self.num_input_pipelines, "num_input_pipelines", 1)
        whole_number(self.num_replicas_in_sync, "num_replicas_in_sync", 1)
        if whole_number(self.input_pipeline_id, "input_pipeline_id", 0) >= self.num_input_pipelines:
            raise InvalidArgumentError(
                f"input_pipeline_id is {self.input_pipeline_id} of {self.num_input_pipelines} pipelines; "
                f"expected 0 to {self.num_input_pipelines - 1}"
            )

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The rows of a global batch that each replica gets.

        Args:
            global_batch_size: rows of one step over all replicas.

        Returns:
            ``global_batch_size // num_replicas_in_sync``.

        Raises:
            InvalidArgumentError: the division leaves a rest.
        """
        size, rest = divmod(whole_number(global_batch_size, "global_batch_size", 0), self.num_replicas_in_sync)
        if rest:
            near = global_batch_size - rest or self.num_replicas_in_sync
            raise InvalidArgumentError(
                f"a global batch of {global_batch_size} rows cannot be divided among {self.num_replicas_in_sync} "
                f"replicas; expected a multiple of {self.num_replicas_in_sync}, for example {near}"
            )
        return size


class InputReplicationMode(enum.Enum):
    """Whether a `dataset_fn` is called once per worker, or once per replica.

    Attributes:
        PER_WORKER: once per worker, whose replicas take batches in turn.
        PER_REPLICA: once per replica.

    Example:
        >>> import simdist as sd
        >>> options = sd.InputOptions(experimental_replication_mode=sd.InputReplicationMode.PER_REPLICA)
        >>> made = sd.MirroredStrategy(2).distribute_datasets_from_function(
        ...     lambda context: sd.Dataset.range(4).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2), options)
        >>> [part.tolist() for part in next(iter(made)).values]
        [[0, 2], [1, 3]]
    """

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


@dataclass(frozen=True)
class InputOptions:
    """How a distributed dataset reaches its devices; read-only.

    Args:
        experimental_fetch_to_device: copy elements to the device ahead of time; None means yes, and False is refused.
        experimental_replication_mode: one pipeline per worker, or one per replica.
        experimental_place_dataset_on_device: run the pipeline itself on the device; no strategy does.
        experimental_per_replica_buffer_size: elements kept ready per replica.

    Raises:
        InvalidArgumentError: an unknown mode, elements that stay on the host, or the pipeline is to run on the device without PER_REPLICA.

    Example:
        >>> InputOptions().experimental_replication_mode.name
        'PER_WORKER'
    """

    experimental_fetch_to_device: bool | None = None
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "experimental_replication_mode", _mode(self.experimental_replication_mode))
        if optional_flag(self.experimental_fetch_to_device, "experimental_fetch_to_device") is False:
            raise InvalidArgumentError(
                "experimental_fetch_to_device=False is not simulated: elements are on the device when a step begins; leave it out"
            )
        flag(self.experimental_place_dataset_on_device, "experimental_place_dataset_on_device")
        per_replica = self.experimental_replication_mode is InputReplicationMode.PER_REPLICA
        if self.experimental_place_dataset_on_device and not per_replica:
            raise InvalidArgumentError(
                "experimental_place_dataset_on_device is True with one pipeline per worker; expected "
                "experimental_replication_mode=InputReplicationMode.PER_REPLICA; set it, or leave the placement out"
            )
        whole_number(self.experimental_per_replica_buffer_size, "experimental_per_replica_buffer_size", 1)


def checked_options(options: object, name: str = "options") -> InputOptions:
    """The options of an input, as they were given or as they are by default.

    Args:
        options: `InputOptions`, or None.
        name: of the argument.

    Raises:
        TypeError: something else.
        InvalidArgumentError: the pipeline is to run on a device.
    """
    if options is None:
        return InputOptions()
    if not isinstance(options, InputOptions):
        raise TypeError(f"{name} is {options!r}; expected sd.InputOptions(...) or None")
    if options.experimental_place_dataset_on_device:
        raise InvalidArgumentError(
            "experimental_place_dataset_on_device=True is not simulated: the pipelines run on the workers' processors. Leave it out."
        )
    return options


def require_common_pipeline(options: InputOptions) -> None:
    """Refuse a pipeline for each replica where there is one dataset.

    Raises:
        NotImplementedError: it was asked for, and needs a function that makes the datasets.
    """
    if options.experimental_replication_mode is InputReplicationMode.PER_REPLICA:
        raise NotImplementedError(
            "one dataset cannot be read by a pipeline per replica; expected InputReplicationMode.PER_WORKER; "
            "give a function that makes the datasets (distribute_datasets_from_function) instead"
        )


def _mode(word: object) -> InputReplicationMode:
    try:
        return InputReplicationMode(word)
    except ValueError:
        names = ", ".join(InputReplicationMode.__members__)
        raise InvalidArgumentError(f"experimental_replication_mode is {word!r}; expected one of InputReplicationMode: {names}") from None
