"""Cases of lookup tables and preprocessing layers: B257 to B264, and C15."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd

ABC = ["a", "b", "c"]


def test_b257_unknown_words_are_hashed_to_their_indices() -> None:
    lookup = sd.StringLookup(vocabulary=ABC, num_oov_indices=2)
    # TensorFlow 2.21 gives these buckets, too.
    assert lookup(["a", "x", "y", "zz", "foo"]).tolist() == [2, 0, 1, 0, 1]
    assert lookup.vocabulary_size() == 5


def test_b257_a_mask_takes_the_first_index() -> None:
    lookup = sd.StringLookup(vocabulary=ABC, num_oov_indices=2, mask_token="")
    assert lookup(["a", ""]).tolist() == [3, 0]
    assert lookup.vocabulary_size() == 6
    assert lookup.get_vocabulary() == ["", "[UNK]", "[UNK]", "a", "b", "c"]


@pytest.mark.parametrize(("arguments", "words"), [({"vocabulary": ["a", "a"]}, "repeats 'a'"), ({"max_tokens": 3}, "max_tokens is 3")])
def test_b257_vocabularies_that_repeat_or_are_too_large_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sd.StringLookup(**{"vocabulary": ABC, **arguments})


def test_b258_inverted_indices_are_words() -> None:
    lookup = sd.StringLookup(vocabulary=ABC, invert=True)
    assert lookup([0, 1, 3, 9, -1]).tolist() == ["[UNK]", "a", "c", "[UNK]", "[UNK]"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("one_hot", [[0, 1, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]),
        ("multi_hot", [0, 1, 0, 1]),
        ("count", [0, 2, 0, 1]),
    ],
)
def test_b258_output_modes(mode: str, expected: Any) -> None:
    assert sd.StringLookup(vocabulary=ABC, output_mode=mode)(["a", "c", "a"]).tolist() == expected


def test_b259_adapt_orders_by_frequency_and_then_backwards() -> None:
    lookup = sd.StringLookup()
    lookup.adapt(["b", "a", "b", "c", "b", "a"])
    assert lookup.get_vocabulary() == ["[UNK]", "b", "a", "c"]
    tied = sd.StringLookup()
    tied.adapt([["d", "c"], ["c", "d"]])
    assert tied.get_vocabulary() == ["[UNK]", "d", "c"]


def test_b259_max_tokens_keeps_the_most_frequent() -> None:
    lookup = sd.StringLookup(max_tokens=3)
    lookup.adapt(["b", "a", "b", "c", "b", "a"])
    assert lookup.get_vocabulary() == ["[UNK]", "b", "a"]


def test_b260_integers() -> None:
    assert sd.IntegerLookup(vocabulary=[10, 20, 30])([10, 20, 99, -1]).tolist() == [1, 2, 0, 0]
    assert sd.IntegerLookup(vocabulary=[10, 20, 30]).get_vocabulary()[0] == -1
    assert sd.IntegerLookup(vocabulary=[10, 20, 30], mask_token=0)([10, 20, 99, 0]).tolist() == [2, 3, 1, 0]
    assert sd.IntegerLookup(vocabulary=[10, 20, 30], num_oov_indices=2)([98, 99, 10]).tolist() == [0, 1, 2]


def test_b261_texts() -> None:
    vectorize = sd.TextVectorization(vocabulary=["the", "cat", "sat"], output_sequence_length=4)
    assert vectorize("The cat, sat!").tolist() == [2, 3, 4, 0]
    assert vectorize(["dog"]).tolist() == [[1, 0, 0, 0]]
    assert vectorize.get_vocabulary() == ["", "[UNK]", "the", "cat", "sat"]


def test_b262_a_table_gives_values_and_the_default() -> None:
    table = sd.StaticHashTable(sd.KeyValueTensorInitializer(["x", "y"], [1, 2]), -1)
    assert table.lookup(["x", "q", "y"]).tolist() == [1, -1, 2]


def test_b262_a_key_of_another_kind_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="keys of dtype string"):
        sd.StaticHashTable({"x": 1}, -1).lookup([1])


def test_b262_a_key_twice_needs_the_same_value() -> None:
    with pytest.raises(sd.errors.FailedPreconditionError, match="'x' with the values 1 and 2"):
        sd.StaticHashTable((["x", "x"], [1, 2]), -1)
    assert sd.StaticHashTable((["x", "x"], [1, 1]), -1).size() == 1


HEROES = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]


def test_b263_layers_without_mask_and_oov_count_from_zero() -> None:
    features = sd.StringLookup(vocabulary=HEROES, mask_token=None, num_oov_indices=0)
    labels = sd.StringLookup(vocabulary=["yes", "no"], mask_token=None, num_oov_indices=0)
    assert features(HEROES).tolist() == list(range(7))
    assert labels([["yes"], ["no"]]).tolist() == [[0], [1]]


def two_workers() -> tuple[sd.Cluster, sd.ParameterServerStrategy]:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, seed=0)
    return cluster, sd.ParameterServerStrategy(cluster)


def test_b264_a_table_of_the_scope_has_a_copy_on_every_worker_that_is_up() -> None:
    cluster, strategy = two_workers()
    with strategy.scope():
        table = sd.StaticHashTable({"a": 1, "b": 2}, -1, name="table")
        lookup = sd.StringLookup(vocabulary=ABC, name="words")
    coordinator = sd.ClusterCoordinator(strategy)
    assert [record.task for record in table.placements()] == ["worker:0", "worker:1"]
    assert {(r.variable, r.task) for r in strategy.placements() if r.kind == "table"} == {
        (name, task) for name in ("table", "words") for task in ("worker:0", "worker:1")
    }
    placed = [(i.lane, i.name) for i in cluster.trace.instants.where(category="place")]
    assert placed[:2] == [("worker:0", "table"), ("worker:1", "table")]
    assert lookup.placements()[0].size_bytes == 3 + 3 * 8
    cluster.faults.crash("worker:1", at=cluster.now + 1.0, restart_after=1.0)
    sd.sleep(1.5)
    assert [record.task for record in table.placements()] == ["worker:0"]
    sd.sleep(5.0)
    assert [record.task for record in table.placements()] == ["worker:0", "worker:1"]
    assert coordinator.schedule(lambda: table.lookup(["b"]).tolist()).fetch() == [2]


def test_b264_a_table_of_a_dataset_function_stays_where_it_was_made() -> None:
    _, strategy = two_workers()
    made: list[sd.StaticHashTable] = []

    def dataset_fn() -> sd.Dataset:
        made.append(sd.StaticHashTable({"a": 1}, -1))
        return sd.Dataset.from_tensor_slices(["a", "q"]).map(made[-1].lookup).batch(2).repeat()

    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))
    assert np.asarray(coordinator.schedule(sd.function(next), (iterator,)).fetch()).tolist() == [1, -1]
    assert made and all(table.placements() == [] for table in made)
    assert not strategy.tables


def counted(engine: str, looks_up: bool) -> tuple[list[int], str]:
    """What three closures count of the words a, b and q, and the digest of the run; their indices are looked up, or known before."""
    cluster = sd.Cluster({"worker": 2, "ps": 1}, seed=0, engine=engine)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        lookup = sd.StringLookup(vocabulary=ABC)
        seen = sd.Variable(np.zeros(3, np.int32))

    @sd.function
    def step(iterator: Any) -> None:
        seen.assign_add(next(iterator))

    coordinator = sd.ClusterCoordinator(strategy)
    words = sd.Dataset.from_tensor_slices([["a", "b", "q"]]).map(lookup)
    indices = sd.Dataset.from_tensor_slices(np.array([[1, 2, 0]], np.int32))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: (words if looks_up else indices).repeat()))
    for _ in range(3):
        coordinator.schedule(step, (iterator,))
    coordinator.schedule(lambda: lookup(["c"]) if looks_up else None)
    coordinator.join()
    return seen.numpy().tolist(), cluster.trace.digest()


@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_c15_lookups_in_closures_and_datasets_send_no_messages(engine: str) -> None:
    found, digest = counted(engine, looks_up=True)
    assert found == [3, 6, 0]
    assert (found, digest) == counted(engine, looks_up=False)


def test_second_program_maps_words_to_numbers_on_every_worker() -> None:
    """The data of the parameter server tutorial: words looked up in the dataset function, as the design has it."""
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=0)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        feature_lookup = sd.StringLookup(vocabulary=HEROES, mask_token=None)
        label_lookup = sd.StringLookup(vocabulary=["yes", "no"], num_oov_indices=0, mask_token=None)
        avengers = sd.Variable(0, aggregation=sd.VariableAggregation.SUM)

    def dataset_fn(_: sd.InputContext) -> sd.Dataset:
        rng = np.random.default_rng(0)
        words = np.array([rng.choice(HEROES, 3, replace=False) for _ in range(200)])
        labels = np.where((words == "avenger").any(axis=1), "yes", "no")[:, None]
        return (
            sd.Dataset.from_tensor_slices({"features": words, "label": labels})
            .map(lambda e: ({"features": feature_lookup(e["features"])}, label_lookup(e["label"])))
            .shuffle(200, seed=0)
            .batch(32)
            .repeat()
        )

    features, labels = next(iter(dataset_fn(sd.InputContext())))
    assert features["features"].dtype == labels.dtype == np.int32
    assert features["features"].shape == (32, 3) and labels.shape == (32, 1)
    assert ((features["features"] == feature_lookup("avenger")).any(axis=1) == (labels[:, 0] == 0)).all()

    @sd.function
    def step(iterator: Any) -> Any:
        features, labels = next(iterator)
        found = (features["features"] == 1).sum()
        avengers.assign_add(found)
        return found + labels.sum()

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn))
    iterator = iter(dataset)
    results = [coordinator.schedule(step, args=(iterator,)) for _ in range(9)]
    coordinator.join()
    # A row of words has an avenger, or the label 1: each row counts once.
    assert [int(np.asarray(result.fetch())) for result in results] == [32] * 9
    assert int(avengers.numpy()) > 0
    assert feature_lookup.get_vocabulary() == ["[UNK]", *HEROES]
