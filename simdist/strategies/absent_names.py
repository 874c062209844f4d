"""Names of strategies in older versions of TensorFlow, and of its graph mode: the error of each says what to write.

Invariant: for ``hasattr`` and ``getattr`` with a default, an absent name is absent: the error is an AttributeError.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn

from simdist.data.absent_names import refusal

__all__ = ["OF_EXTENDED", "OF_STRATEGIES", "WithAbsentNames"]

DATASET = "iter(strategy.distribute_dataset(dataset)), and strategy.run(fn, args=(next(iterator),))"
OF_STRATEGIES = {
    "broadcast": "strategy.extended.broadcast_to(value, None)",
    "colocate_vars_with": "strategy.extended.colocate_vars_with(variable)",
    "configure": "nothing: a strategy has no sessions",
    "experimental_assign_to_logical_device": "nothing: a replica is a core",
    "experimental_initialize": "nothing: a slice is ready when it is made",
    "experimental_replicate_to_logical_devices": "nothing: a replica is a core",
    "experimental_run": DATASET,
    "experimental_run_v2": "strategy.run(fn, args=..., kwargs=...)",
    "experimental_split_to_logical_devices": "nothing: a replica is a core",
    "make_dataset_iterator": DATASET,
    "make_input_fn_iterator": "iter(strategy.distribute_datasets_from_function(dataset_fn))",
    "unwrap": "strategy.local_results(value)",
}
OF_EXTENDED = {
    "call_for_each_replica": "strategy.run(fn, args=..., kwargs=...)",
    "experimental_require_static_shapes": "nothing: replicas may have batches of different sizes",
    "non_slot_devices": "strategy.extended.parameter_devices",
    "num_hosts": "strategy.num_workers",
    "num_replicas_per_host": "strategy.num_replicas_in_sync // strategy.num_workers",
    "update_non_slot": "strategy.extended.update(variable, fn, args=...)",
}


class _Absent:
    """A name that the objects of a class have not.

    A ``__getattr__`` of the class would say the same, and would make each other attribute of its objects slower.
    """

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead
        self.__doc__ = f"Not here. Write instead: {instead}"  # for help(), which shows all names of a class

    def __get__(self, owner: object, kind: type) -> NoReturn:
        raise refusal(f"{kind.__name__!r} object", self.name, self.instead)


class WithAbsentNames:
    """A class whose objects say of some names that they have not what to write.

    Attributes:
        absent_names: what to write in the place of each.
    """

    absent_names: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        for name, instead in vars(cls).get("absent_names", {}).items():
            setattr(cls, name, _Absent(name, instead))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self.absent_names]
