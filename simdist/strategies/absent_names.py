"""Names of strategies in older versions of TensorFlow, and of its graph mode: the error of each says what to write.

Invariant: for ``hasattr`` and ``getattr`` with a default, an absent name is absent: the error is an AttributeError.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn

from simdist.data.absent_names import of_property, refusal

__all__ = ["OF_EXTENDED", "OF_STRATEGIES", "KnowsAbsentNames"]

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


class KnowsAbsentNames:
    """A class whose objects say of some names that they have not what to write.

    Attributes:
        absent_names: what to write in the place of each.
    """

    absent_names: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            of_property(self, name)
            raise refusal(f"{type(self).__name__!r} object", name, self.absent_names.get(name))
