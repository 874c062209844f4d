"""What arguments of the wrong kind meet at the call: an error that names them, and no error from the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import collectives, hardware
from simdist.data.choosing import checked_weights
from simdist.errors import InvalidArgumentError
from simdist.estimator.canned.options import checked_columns

TWO = np.zeros(2)
NUMBERS = sd.Dataset.range(10)
SPEC = sd.ClusterSpec({"worker": 2})
STRATEGY = sd.MirroredStrategy(devices=2)
with STRATEGY.scope():
    TABLE = sd.Variable(np.ones((4, 2), np.float32), name="table")


def in_replicas(fn: Callable[[], object]) -> Any:
    return STRATEGY.run(fn)


def applied(gradient: Any, **options: Any) -> Any:
    import optax

    with STRATEGY.scope():
        optimizer = sd.Optimizer(optax.sgd(0.0))
    return in_replicas(lambda: optimizer.apply_gradients([(gradient, TABLE)], **options))


CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a job": (lambda: SPEC.num_tasks([1]), InvalidArgumentError, "No such job in the cluster"),  # type: ignore[arg-type]
    "an index": (lambda: SPEC.task_address("worker", True), TypeError, "index is True; expected an integer"),
    "accelerators": (lambda: sd.SimpleClusterResolver(SPEC, num_accelerators=8), TypeError, "num_accelerators must be a dict"),  # type: ignore[arg-type]
    "task_type": (lambda: sd.SimpleClusterResolver(SPEC, TWO), TypeError, "task_type must be text"),  # type: ignore[arg-type]
    "rpc_layer": (lambda: sd.SimpleClusterResolver(SPEC).master("worker", 0, TWO), TypeError, "rpc_layer must be text"),  # type: ignore[arg-type]
    "start": (lambda: sd.Server(SPEC, "worker", 0, start="False"), TypeError, "start is 'False'; expected True or False"),  # type: ignore[arg-type]
    "a task": (lambda: sd.Cluster(SPEC).directory("a", [1]), InvalidArgumentError, r"no task \[1\] in this cluster"),  # type: ignore[arg-type]
    "a null": (lambda: sd.Cluster(SPEC).directory("a\0b"), InvalidArgumentError, "no name of a directory"),
    "a long name": (lambda: sd.Cluster(SPEC).directory("x" * 300), InvalidArgumentError, "no name of a directory"),
    "disks": (lambda: sd.Cluster(SPEC, disks=TWO), TypeError, "expected a DiskModel"),  # type: ignore[arg-type]
    "empty disks": (lambda: sd.Cluster(SPEC, disks=[]), TypeError, "expected a DiskModel"),  # type: ignore[arg-type]
    "within_host": (lambda: hardware.Network().within_host(1), TypeError, "within_host takes a LinkModel"),  # type: ignore[arg-type]
    "a port": (lambda: hardware.Network().with_port(3, bandwidth=1.0), TypeError, "Override: name must be text"),  # type: ignore[arg-type]
    "seconds": (lambda: hardware.Device().seconds(-1, 0), InvalidArgumentError, "flops=-1 must be a finite number"),
    "rank": (lambda: collectives.PowerSGD(rank=1.5), TypeError, "PowerSGD: rank is 1.5; expected an integer"),  # type: ignore[arg-type]
    "seed": (lambda: collectives.PowerSGD(seed="x"), TypeError, "PowerSGD: seed is 'x'; expected an integer"),  # type: ignore[arg-type]
    "fraction": (lambda: collectives.TopK("x"), TypeError, "TopK: fraction is 'x'; expected a number"),  # type: ignore[arg-type]
    "sizes": (lambda: collectives.group_by_size(3, 1), TypeError, "sizes_bytes is 3; expected a list"),  # type: ignore[arg-type]
    "packs": (lambda: collectives.split_in_packs(5, 2**63), InvalidArgumentError, "expected at most"),
    "merge": (lambda: sd.CommunicationOptions().merge(3), TypeError, "merge takes sd.CommunicationOptions"),  # type: ignore[arg-type]
    "set_strategy": (lambda: sd.experimental_set_strategy("x"), TypeError, "takes a strategy"),
    "merge_fn": (lambda: in_replicas(lambda: sd.get_replica_context().merge_call(None)), TypeError, "merge_call takes a function"),  # type: ignore[arg-type, union-attr]
    "update": (lambda: STRATEGY.extended.update(TABLE, None), TypeError, "extended.update takes a function"),  # type: ignore[arg-type]
    "group": (lambda: STRATEGY.extended.update(TABLE, lambda _: 1, group=TWO), TypeError, "group is"),  # type: ignore[arg-type]
    "pairs": (lambda: STRATEGY.extended.batch_reduce_to("SUM", [1, 2]), TypeError, "expected pairs"),  # type: ignore[list-item]
    "a text as weight": (
        lambda: in_replicas(lambda: sd.compute_average_loss(np.ones(2, np.float32), sample_weight="3", global_batch_size=4)),
        InvalidArgumentError,
        "sample_weight was given '3'",
    ),
    "a text as loss": (lambda: in_replicas(lambda: sd.compute_average_loss("3")), InvalidArgumentError, "was given '3'"),
    "check_numerics": (lambda: sd.check_numerics(object(), "x"), InvalidArgumentError, "check_numerics was given"),
    "a gradient": (lambda: applied("3"), InvalidArgumentError, "The gradient of 'table' was given '3'"),
    "a ragged gradient": (lambda: applied([[1], [2, 3]]), InvalidArgumentError, "which is no array"),
    "a wide gradient": (lambda: applied(np.ones((4, 2), np.longdouble)), InvalidArgumentError, "at most 64 bits"),
    "skip": (lambda: applied(TABLE, skip_gradients_aggregation="False"), TypeError, "skip_gradients_aggregation is 'False'"),
    "ragged indices": (lambda: TABLE.scatter_add([[1], [2, 3]], 1.0), InvalidArgumentError, "indices are no array"),  # type: ignore[list-item]
    "float indices": (lambda: TABLE.batch_scatter_update(TWO, 1.0), InvalidArgumentError, "expected whole numbers"),
    "a huge index": (lambda: TABLE[2**63], IndexError, "^table:"),
    "no variables": (lambda: sd.value_and_grad(lambda: 1.0, 3), TypeError, "variables is 3; expected a list"),  # type: ignore[arg-type]
    "parts": (lambda: sd.PerReplica(3), TypeError, "values is 3; expected a list"),  # type: ignore[arg-type]
    "axis": (lambda: sd.FixedShardsPartitioner(2)((4, 4), np.float32, axis=1.5), TypeError, "axis is 1.5"),  # type: ignore[arg-type]
    "range": (lambda: sd.Dataset.range(None), TypeError, "a number of range is None"),  # type: ignore[arg-type]
    "a bool": (lambda: sd.Dataset.range(True), TypeError, "a number of range is True"),
    "a long range": (lambda: sd.Dataset.range(10**400), InvalidArgumentError, "expected at most"),
    "cycle_length": (lambda: NUMBERS.interleave(lambda x: NUMBERS, cycle_length=2**63), InvalidArgumentError, "expected at most"),
    "shards": (lambda: NUMBERS.shard(TWO, 0), TypeError, "num_shards is"),  # type: ignore[arg-type]
    "cache": (lambda: NUMBERS.cache(TWO), TypeError, "filename is"),  # type: ignore[arg-type]
    "apply": (lambda: NUMBERS.apply(3), TypeError, "apply takes a function"),  # type: ignore[arg-type]
    "lengths": (lambda: NUMBERS.bucket_by_sequence_length(3, [1], [1, 1]), TypeError, "takes a function"),  # type: ignore[arg-type]
    "boundaries": (lambda: NUMBERS.bucket_by_sequence_length(len, 3, [1]), TypeError, "bucket_boundaries is 3"),  # type: ignore[arg-type]
    "datasets": (lambda: sd.Dataset.sample_from_datasets(TWO), TypeError, "expected datasets"),  # type: ignore[arg-type]
    "texts as weights": (lambda: sd.Dataset.sample_from_datasets([NUMBERS], ["1"]), InvalidArgumentError, "a number from 0 for each"),  # type: ignore[list-item]
    "paths": (lambda: sd.Dataset.from_files(3), TypeError, "paths is 3; expected a list of paths"),  # type: ignore[arg-type]
    "a path": (lambda: sd.Dataset.from_files("a\0b"), TypeError, "a path is"),
    "options": (lambda: sd.Options().merge(None), TypeError, "merge takes Options"),  # type: ignore[arg-type]
    "oov": (lambda: sd.StringLookup(num_oov_indices=2**63), InvalidArgumentError, "num_oov_indices is .* expected at most"),
    "mask": (lambda: sd.StringLookup(mask_token=False), TypeError, "mask_token is False; expected a string"),  # type: ignore[arg-type]
    "idf": (lambda: sd.StringLookup(vocabulary=["a"], output_mode="tf_idf", idf_weights=["1"]), TypeError, "a weight of idf_weights"),
    "encoding": (lambda: sd.StringLookup(encoding="a\0"), InvalidArgumentError, "encoding is"),
    "a key dtype": (lambda: sd.KeyValueTensorInitializer([1], [1], key_dtype=TWO), TypeError, "a dtype of the table is"),
    "a file": (lambda: sd.StringLookup(vocabulary=""), InvalidArgumentError, "no path of a file"),
    "config": (lambda: sd.StringLookup.from_config(3), TypeError, "config is 3"),  # type: ignore[arg-type]
    "compare": (lambda: sd.compare(TWO, TWO), TypeError, "expected a session or a cluster"),  # type: ignore[arg-type]
    "termination": (
        lambda: sd.PreemptionCheckpointHandler(None, sd.Checkpoint(), "x", termination_config="x"),  # type: ignore[arg-type]
        TypeError,
        "termination_config is 'x'",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_a_wrong_argument_is_refused_by_its_name(what: str) -> None:
    call, error, message = CASES[what]
    with pytest.raises(error, match=message):
        call()
    assert not sd.has_strategy()
    np.testing.assert_array_equal(TABLE.numpy(), np.ones((4, 2)))


def test_a_bool_of_numpy_is_an_index_as_one_of_python() -> None:
    assert TABLE[np.bool_(True)].shape == TABLE[True].shape == (1, 4, 2)


def test_a_refused_strategy_leaves_the_chosen_one() -> None:
    sd.experimental_set_strategy(STRATEGY)
    try:
        with pytest.raises(TypeError, match="takes a strategy"):
            sd.experimental_set_strategy(3)
        assert sd.get_strategy() is STRATEGY
    finally:
        sd.experimental_set_strategy(None)


def test_generators_are_as_their_lists() -> None:
    pairs = [(float(x) for x in (3, 1)), [3.0, 1.0]]
    found = [[int(x) for x in sd.Dataset.sample_from_datasets([NUMBERS, NUMBERS], weights, seed=1)] for weights in pairs]  # type: ignore[arg-type]
    assert found[0] == found[1]
    assert sd.PerReplica(x for x in (1, 2)).values == sd.PerReplica([1, 2]).values  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [jnp.array([3.0, 1.0]), [np.array(3.0), np.array(1.0)], {3.0: "a", 1.0: "b"}.keys()], ids=type)
def test_numbers_of_arrays_and_keys_of_a_dict_are_as_their_list(weights: Any) -> None:
    assert checked_weights(weights, 2).tolist() == [0.75, 0.25]
    layers = [sd.StringLookup(vocabulary=["a", "b"], output_mode="tf_idf", idf_weights=given) for given in (weights, [3.0, 1.0])]
    first, second = (layer.get_config()["idf_weights"] for layer in layers)
    assert list(first) == list(second)


def test_a_set_of_feature_columns_is_as_its_list() -> None:
    columns = [sd.feature_column.numeric_column(name) for name in ("b", "a")]
    assert checked_columns(set(columns), deep=True) == checked_columns(columns, deep=True)


@pytest.mark.parametrize("dtype", [np.dtype(str), np.dtype(bytes), np.str_, np.array(["abc"]).dtype])
def test_dtypes_of_text_are_those_of_a_table_of_strings(dtype: Any) -> None:
    table = sd.StaticHashTable(sd.KeyValueTensorInitializer(["a", "bcd"], [1, 2], key_dtype=dtype), -1)
    assert table.key_dtype == "string"
    assert table.lookup(["bcd", "x"]).tolist() == [2, -1]


def test_a_dtype_of_int64_is_that_of_a_vocabulary() -> None:
    assert sd.IntegerLookup(vocabulary=[7], vocabulary_dtype=np.dtype("int64"))([7]).tolist() == [1]  # type: ignore[arg-type]
