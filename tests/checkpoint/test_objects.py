"""Every kind of object that a checkpoint saves, under every strategy, restored into any number of shards, replicas and workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.errors import InvalidArgumentError
from tests.checkpoint.kept import Kept

variable: Any = sd.Variable
TABLE = np.arange(30, dtype=np.float32).reshape(10, 3)

SYNCHRONOUS: dict[str, Callable[[], Any]] = {
    "default": lambda: sd.get_strategy(),
    "one device": lambda: sd.OneDeviceStrategy("cpu:0"),
    "mirrored": lambda: sd.MirroredStrategy(3),
    "central": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "in process": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, engine="in_process")),
}
SERVERS: dict[str, Callable[[], Any]] = {
    "one server": lambda: servers(1, None),
    "three servers": lambda: servers(3, None),
    "two shards": lambda: servers(2, sd.FixedShardsPartitioner(2)),
    "three shards": lambda: servers(3, sd.FixedShardsPartitioner(3)),
    "five shards on two": lambda: servers(2, sd.FixedShardsPartitioner(5)),
    "columns": lambda: servers(2, lambda shape, dtype: [1] * (len(shape) - 1) + [3]),
    "in process": lambda: servers(2, sd.FixedShardsPartitioner(2), engine="in_process"),
}
STRATEGIES = {**SYNCHRONOUS, **SERVERS, "servers in process": SERVERS["in process"], "in process": SYNCHRONOUS["in process"]}


def servers(count: int, partitioner: Any, **options: Any) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": count}, **options), variable_partitioner=partitioner)


@cache
def saved_by(name: str) -> str:
    """A checkpoint of a table, as a strategy saves it."""
    with STRATEGIES[name]().scope():
        table = variable(TABLE, name="table")
    return sd.Checkpoint(table=table).save(Path(mkdtemp(), "ckpt"))


PAIRS = [(old, new) for old in STRATEGIES for new in STRATEGIES]
SAMPLE = [
    ("default", "columns"),
    ("columns", "three shards"),
    ("five shards on two", "mirrored"),
    ("mirrored", "workers"),
    ("default", "tpu"),
    ("default", "central"),
    ("columns", "servers in process"),
]


@pytest.mark.parametrize(("old", "new"), sampled(PAIRS, SAMPLE))
def test_a_variable_is_restored_under_every_strategy_whichever_saved_it(old: str, new: str) -> None:
    with STRATEGIES[new]().scope():
        table = variable(np.zeros_like(TABLE), name="another name")
    status = sd.Checkpoint(table=table).restore(saved_by(old)).assert_consumed()
    assert status.restored == ["table"] and table.numpy().tobytes() == TABLE.tobytes()


@pytest.mark.parametrize("rows", sampled([1, 4], [4]))
def test_rows_that_do_not_divide_evenly_are_restored(rows: int, tmp_path: Path) -> None:
    array = np.arange(rows, dtype=np.int32)
    for old, new in ((1, 3), (3, 5), (5, 2)):
        found = []
        for shards in (old, new):
            with servers(2, sd.FixedShardsPartitioner(shards)).scope():
                found.append(variable(array if shards == old else 0 * array))
        sd.Checkpoint(v=found[1]).restore(sd.Checkpoint(v=found[0]).save(tmp_path / "ckpt")).assert_consumed()
        assert found[1].numpy().tolist() == array.tolist()


def test_a_shard_can_be_saved_alone(tmp_path: Path) -> None:
    with servers(2, sd.FixedShardsPartitioner(2)).scope():
        table = variable(TABLE)
    first, second = table.variables
    path = sd.Checkpoint(first=first).save(tmp_path / "ckpt")
    table.assign(0 * TABLE)
    sd.Checkpoint(first=first).restore(path).assert_consumed()
    assert np.array_equal(table.numpy(), np.concatenate([TABLE[:5], 0 * TABLE[5:]])) and not second.numpy().any()


# -- values of each replica -----------------------------------------------------------------------------------------------

AGGREGATIONS = ["SUM", "MEAN", "ONLY_FIRST_REPLICA", "NONE"]


def on_read(strategy: Any, aggregation: str) -> Any:
    """A variable whose replicas have 1, 2, 3, ..."""
    with strategy.scope():
        v = variable(
            0.0,
            synchronization=sd.VariableSynchronization.ON_READ,
            aggregation=getattr(sd.VariableAggregation, aggregation),
            trainable=False,
        )
    return v


def count(strategy: Any, v: Any) -> None:
    """Each replica adds its number, from 1 on."""

    def in_replica() -> None:
        context: Any = sd.get_replica_context()
        v.assign_add(context.replica_id_in_sync_group + 1.0)

    @sd.function
    def step() -> None:
        strategy.run(in_replica)

    step()


def values_of(strategy: Any, v: Any) -> list[float]:
    return [float(x) for x in strategy.local_results(strategy.run(lambda: v.value + 0.0))]


MADE: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(3),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})),
}


@pytest.mark.parametrize(
    ("made", "aggregation"), sampled([(made, one) for made in MADE for one in AGGREGATIONS], [("mirrored", "NONE"), ("workers", "SUM")])
)
def test_each_of_as_many_replicas_gets_its_own_value_back(made: str, aggregation: str, tmp_path: Path) -> None:
    strategy = MADE[made]()
    v = on_read(strategy, aggregation)
    count(strategy, v)
    path = sd.Checkpoint(v=v).save(tmp_path / "ckpt")
    other_strategy = sd.MirroredStrategy(3)
    other = on_read(other_strategy, aggregation)
    sd.Checkpoint(v=other).restore(path).assert_consumed()
    assert values_of(other_strategy, other) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("replicas", sampled([1, 2], [2]))
def test_another_number_of_replicas_gets_the_combined_value(replicas: int, tmp_path: Path) -> None:
    strategy = sd.MirroredStrategy(3)
    counted = {aggregation: on_read(strategy, aggregation) for aggregation in AGGREGATIONS}
    for v in counted.values():
        count(strategy, v)
    path = sd.Checkpoint(**counted).save(tmp_path / "ckpt")
    fewer = sd.MirroredStrategy(replicas)
    combined = {"SUM": 6.0, "MEAN": 2.0, "ONLY_FIRST_REPLICA": 1.0}
    others = {name: on_read(fewer, name) for name in combined}
    sd.Checkpoint(**others).restore(path).expect_partial()
    assert {name: float(v) for name, v in others.items()} == combined
    assert values_of(fewer, others["MEAN"]) == [2.0] * replicas


def test_values_that_cannot_be_combined_are_refused_before_anything_changes(tmp_path: Path) -> None:
    strategy = sd.MirroredStrategy(3)
    first, v, kept = variable(1.0), on_read(strategy, "NONE"), Kept("saved")
    count(strategy, v)
    path = sd.Checkpoint(first=first, v=v, kept=kept).save(tmp_path / "ckpt")
    other, kept.state = on_read(sd.MirroredStrategy(2), "NONE"), "as it was"
    first.assign(5.0)
    with pytest.raises(InvalidArgumentError, match="v has a value of its own on each of 2 replicas, and the checkpoint has those of 3"):
        sd.Checkpoint(first=first, v=other, kept=kept).restore(path)
    assert float(first) == 5.0 and kept.state == "as it was"


def test_each_worker_gets_its_own_value_back_and_other_workers_none(tmp_path: Path) -> None:
    def made(workers: int) -> tuple[Any, Any]:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": 1}))
        with strategy.scope():
            return strategy, variable(0.0, per_worker_variable=True)

    strategy, v = made(3)
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(9):
        coordinator.schedule(lambda: v.assign_add(1.0 + sd.get_current_worker_index()))
    coordinator.join()
    before = [float(value) for value in v.read_all()]
    path = sd.Checkpoint(v=v).save(tmp_path / "ckpt")
    _, other = made(3)
    sd.Checkpoint(v=other).restore(path).assert_consumed()
    assert [float(value) for value in other.read_all()] == before and any(before)
    with pytest.raises(InvalidArgumentError, match="on each of 2 replicas"):
        sd.Checkpoint(v=made(2)[1]).restore(path)


# -- nests, aliases, checkpoints in checkpoints ---------------------------------------------------------------------------


def test_nests_have_the_paths_of_their_keys(tmp_path: Path) -> None:
    a, b, c = variable(1.0), variable(2.0), variable(3.0)
    inner = sd.Checkpoint(b=b)
    path = sd.Checkpoint(a, nest={"x": [b, (c,)], "empty": {}, "none": []}, inner=inner).save(tmp_path / "ckpt")
    assert path.endswith("ckpt-1") and inner.save_counter == 0
    others = [variable(0.0) for _ in range(3)]
    status = sd.Checkpoint(others[0], nest={"x": [others[1], [others[2]]]}).restore(path)
    assert sorted(status.restored) == ["nest/x/0", "nest/x/1/0", "root"]
    status.assert_consumed()
    assert [float(v) for v in others] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a"), ("b",), ("c", "a")])
def test_an_object_with_several_names_is_saved_once_and_restored_by_any_of_them(names: tuple[str, ...], tmp_path: Path) -> None:
    v, kept = variable([1.0, 2.0]), Kept({"n": 1})
    path = sd.Checkpoint(a=v, b=[v, kept], c={"again": v, "kept": kept}).save(tmp_path / "ckpt")
    other, other_kept = variable([0.0, 0.0]), Kept({})
    shapes = {"a": other, "b": [other, other_kept], "c": {"again": other, "kept": other_kept}}
    status = sd.Checkpoint(**{name: shapes[name] for name in names}).restore(path)
    status.assert_consumed() if names != ("a",) else status
    assert other.numpy().tolist() == [1.0, 2.0] and other_kept.state == {"n": 1} and len(status.restored) == 2


def test_names_of_one_object_may_be_those_of_two_later(tmp_path: Path) -> None:
    v = variable(1.0)
    path = sd.Checkpoint(a=v, b=v).save(tmp_path / "ckpt")
    first, second = variable(0.0), variable(0.0)
    sd.Checkpoint(a=first, b=second).restore(path).assert_consumed()
    assert float(first) == float(second) == 1.0


def test_two_checkpoints_share_their_objects(tmp_path: Path) -> None:
    v = variable(1.0)
    inner = sd.Checkpoint(v=v)
    path = sd.Checkpoint(inner=inner, v=v).save(tmp_path / "ckpt")
    v.assign(0.0)
    sd.Checkpoint(inner=inner).restore(path).assert_consumed()
    assert float(v) == 1.0


def test_variables_of_no_strategy_go_with_those_of_one(tmp_path: Path) -> None:
    strategy = servers(2, sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = variable(TABLE)
    step = variable(7)
    for options in (sd.CheckpointOptions(), sd.CheckpointOptions(writers="owners")):
        path = sd.Checkpoint(step=step, table=table).save(tmp_path / "ckpt", options)
        step.assign(0)
        table.assign(0 * TABLE)
        sd.Checkpoint(step=step, table=table).restore(path).assert_consumed()
        assert int(step) == 7 and np.array_equal(table.numpy(), TABLE)


def test_variables_of_two_clusters_are_refused(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with sd.MirroredStrategy(2).scope():
            found.append(variable(1.0))
    with pytest.raises(InvalidArgumentError, match="belong to several clusters"):
        sd.Checkpoint(a=found[0], b=found[1]).save(tmp_path / "ckpt")
    assert not list(tmp_path.iterdir())


def test_two_strategies_of_one_cluster_are_saved_together(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    with sd.ParameterServerStrategy(cluster).scope():
        a = variable(1.0)
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        b = variable(2.0)
    path = sd.Checkpoint(a=a, b=b).save(tmp_path / "ckpt")
    a.assign(0.0)
    b.assign(0.0)
    sd.Checkpoint(a=a, b=b).restore(path).assert_consumed()
    assert (float(a), float(b)) == (1.0, 2.0)


# -- plain data -----------------------------------------------------------------------------------------------------------


def test_plain_data_are_the_same_afterwards(tmp_path: Path) -> None:
    states = [None, True, 3, -1.5, "text", [], {}, {"workers": [1, 2]}, [{"a": [None, {"b": 1e300}]}], {"": ""}]
    kept = [Kept(state) for state in states]
    path = sd.Checkpoint(kept=kept).save(tmp_path / "ckpt")
    for one in kept:
        one.state = "something else"
    sd.Checkpoint(kept=kept).restore(path).assert_consumed()
    assert repr([one.state for one in kept]) == repr(states)


def test_numbers_of_numpy_and_tuples_are_saved_as_those_of_python(tmp_path: Path) -> None:
    kept = Kept({"a": np.float32(0.5), "b": (np.int64(3), True), "c": np.arange(3), "inf": float("inf"), "nan": np.float64("nan")})
    path = sd.Checkpoint(kept=kept).save(tmp_path / "ckpt")
    sd.Checkpoint(kept=kept).restore(path)
    assert np.isnan(kept.state.pop("nan")) and kept.state == {"a": 0.5, "b": [3, True], "c": [0, 1, 2], "inf": float("inf")}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({1: 2}, "the key 1"),
        ({"a": {None: 2}}, r"kept\['a'\] has the key None"),
        ({"a": [object()]}, r"kept\['a'\]\[0\] is a object"),
        ({"a": {1, 2}}, r"kept\['a'\] is a set"),
        (b"bytes", "kept is a bytes"),
        (1j, "kept is a complex"),
        (np.array(["text"]), "kept is a ndarray"),
    ],
)
def test_what_json_does_not_know_is_refused_by_its_path(state: Any, words: str, tmp_path: Path) -> None:
    checkpoint = sd.Checkpoint(kept=Kept(state))
    with pytest.raises(InvalidArgumentError, match=words):
        checkpoint.save(tmp_path / "ckpt")
    assert not list(tmp_path.iterdir()) and checkpoint.save_counter == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "x is 3"),
        (None, "x is a NoneType"),
        ("text", "x is 'text'"),
        (np.zeros(3), "x is a ndarray"),
        (lambda: None, "x is a function"),
        ({"a": [1.5]}, "x/a/0 is 1.5"),
        (sd.Dataset.range(3), "x is a "),
    ],
)
def test_what_has_no_state_is_refused_when_the_checkpoint_is_made(value: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        sd.Checkpoint(x=value)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ({"a b": 1}, "is no name"),
        ({"": 1}, "is no name"),
        ({"../x": 1}, "is no name"),
        ({"simdist": 1}, "something of its own"),
        ({"replica_values": 1}, "something of its own"),
        ({"d": {1: 1, "1": 1}}, "two keys have the same text"),
    ],
)
def test_names_that_cannot_be_paths_are_refused(objects: dict[str, Any], words: str) -> None:
    def with_variables(value: Any) -> Any:
        return {key: with_variables(inner) for key, inner in value.items()} if isinstance(value, dict) else variable(1.0)

    with pytest.raises(InvalidArgumentError, match=words):
        sd.Checkpoint(**with_variables(objects))


# -- iterators ------------------------------------------------------------------------------------------------------------


def rows_of(iterator: Any, number: int) -> list[Any]:
    return [np.asarray(next(iterator)).tolist() for _ in range(number)]


@pytest.mark.parametrize("seed", [3, None])
def test_an_iterator_goes_on_with_the_next_row_in_a_new_process(seed: int | None, tmp_path: Path) -> None:
    """A new process draws other seeds: that is what a second dataset without a seed does here."""

    def made() -> Any:
        return iter(sd.Dataset.range(20).shuffle(20, seed=seed).repeat().batch(3))

    first = made()
    rows_of(first, 9)
    path = sd.Checkpoint(rows=first).save(tmp_path / "ckpt")
    expected, second = rows_of(first, 9), made()
    sd.Checkpoint(rows=second).restore(path).assert_consumed()
    assert rows_of(second, 9) == expected
    if seed is not None:
        other = iter(sd.Dataset.range(20).shuffle(20, seed=4).repeat().batch(3))
        with pytest.raises(InvalidArgumentError, match=r"shuffle\(seed=3\), and this one has seed=4"):
            sd.Checkpoint(rows=other).restore(path)
        assert rows_of(other, 3) == rows_of(iter(sd.Dataset.range(20).shuffle(20, seed=4).repeat().batch(3)), 3)


def test_a_distributed_iterator_goes_on_with_the_next_batch(tmp_path: Path) -> None:
    def made() -> Any:
        strategy = sd.MirroredStrategy(2)
        dataset = sd.Dataset.range(24).shuffle(24).repeat().batch(4)
        return strategy, iter(strategy.distribute_dataset(dataset))

    def parts(strategy: Any, iterator: Any, number: int) -> Any:
        return [[part.tolist() for part in map(np.asarray, strategy.local_results(next(iterator)))] for _ in range(number)]

    strategy, first = made()
    parts(strategy, first, 8)
    path = sd.Checkpoint(rows=first).save(tmp_path / "ckpt")
    expected = parts(strategy, first, 8)
    other_strategy, second = made()
    sd.Checkpoint(rows=second).restore(path).assert_consumed()
    assert parts(other_strategy, second, 8) == expected
