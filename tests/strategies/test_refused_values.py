"""What is refused at the edge of a strategy, with an error that says what to do, and what an iterator says of its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError

WORDS = [sd.PerReplica([np.array(["a"]), np.array(["b"])]), sd.PerReplica(["a", "b"])]
OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda strategy, words: strategy.gather(words, axis=0),
    lambda strategy, words: strategy.reduce("sum", words, axis=None),
    lambda strategy, words: strategy.reduce("mean", words, axis=0),
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_strings_of_replicas_cannot_be_combined(words: Any, operation: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="a value of a replica holds strings, and a step computes with numbers"):
        operation(sd.MirroredStrategy(2), words)


NO_NUMBERS = ["hello", b"hello", ["hello"], np.array(["a"]), sd.Dataset.range(3), object()]


@pytest.mark.parametrize("op", ["sum", "mean"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("replicas", [1, 2])
def test_what_is_no_number_cannot_be_reduced(value: Any, op: str, replicas: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"(?s)reduce.(SUM|MEAN).*(no number. Give what strategy.run returned|holds strings)"):
        sd.MirroredStrategy(devices=replicas).reduce(op, value, axis=None)


def test_numbers_and_variables_can_be_reduced_by_a_mean_though_no_replica_gave_them() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        variable = sd.Variable(3.0)
    for value in (3, 3.0, np.float32(3), np.full((), 3.0), variable):
        assert float(strategy.reduce("mean", value, axis=None)) == 3.0


def test_a_run_returns_no_arrays_of_strings() -> None:
    strategy = sd.MirroredStrategy(2)
    with pytest.raises(InvalidArgumentError, match=r"a result of strategy\.run holds strings"):
        strategy.run(lambda words: words, args=(WORDS[0],))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_values_of_several_dtypes_cannot_be_combined(operation: Callable[[Any, Any], Any]) -> None:
    values = sd.PerReplica([np.ones(1, np.int32), np.ones(1, np.float16)])
    with pytest.raises(InvalidArgumentError, match=r"values of one dtype; got \['int32', 'float16'\]. Cast .*astype\('float16'\)"):
        operation(sd.MirroredStrategy(2), values)


def test_numbers_of_python_have_no_dtype_that_others_would_have_to_have() -> None:
    assert float(sd.MirroredStrategy(2).reduce("sum", sd.PerReplica([1, 2.5]), axis=None)) == 3.5


@pytest.mark.parametrize("large", [2**40, -(2**40), 2**70, 1e300, 1e300j], ids=str)
@pytest.mark.parametrize("op", ["sum", "mean"])
def test_numbers_of_python_that_jax_has_not_cannot_be_reduced(large: Any, op: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a value of reduce (has \S+, which does not fit|was given .* at most 64 bits)"):
        sd.MirroredStrategy(2).reduce(op, sd.PerReplica([large, large]), axis=None)
    infinite = sd.MirroredStrategy(2).reduce(op, sd.PerReplica([1.0, float("inf")]), axis=None)
    assert np.isinf(infinite)


@pytest.mark.parametrize("large", [np.array([2**40]), np.array([1e300])], ids=["int64", "float64"])
def test_a_run_returns_no_numbers_that_jax_would_change(large: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a result of \S+ has \S+, which does not fit"):
        sd.MirroredStrategy(2).run(lambda x: x, args=(large,))
    found = sd.MirroredStrategy(2).run(lambda x: x // x, args=(large,))
    assert found.values[1].tolist() == [1.0]


def test_a_run_may_look_at_strings() -> None:
    strategy = sd.MirroredStrategy(2)
    found = strategy.run(lambda words, word: float(words[0] == "b") + 2.0 * (word == "b"), args=(WORDS[0], WORDS[1]))
    assert list(map(float, strategy.local_results(found))) == [0.0, 3.0]


def test_arguments_of_an_update_are_a_list() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        w = sd.Variable(1.0)
        with pytest.raises(InvalidArgumentError, match=r"Write args=\(x,\)"):
            strategy.extended.update(w, lambda v, x: v.assign(x), args=1.0)  # pyright: ignore
        strategy.extended.update(w, lambda v, x: v.assign(x), args=(2.0,))
    assert w.numpy() == 2.0


def test_the_error_of_a_decrement_across_the_replicas_names_it() -> None:
    strategy = sd.MirroredStrategy(2)
    how: Any = {"synchronization": "on_read", "aggregation": "sum"}
    with strategy.scope():
        count = sd.Variable(1.0, **how)
        with pytest.raises(InvalidArgumentError, match="assign_sub"):
            count.assign_sub(1.0)


def test_a_lookup_takes_a_table_and_not_the_list_of_its_shards() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table: Any = sd.Variable(np.arange(14.0).reshape(7, 2))
    with pytest.raises(InvalidArgumentError, match=r"not the list of its shards, table\.variables"):
        sd.embedding_lookup(table.variables, [6, 0])
    assert sd.embedding_lookup(table, [6, 0]).tolist() == [[12.0, 13.0], [0.0, 1.0]]


@pytest.mark.parametrize("drop_remainder, rows", [(True, 2), (False, None)])
def test_an_iterator_has_the_spec_of_its_dataset(drop_remainder: bool, rows: int | None) -> None:
    data = sd.MirroredStrategy(2).distribute_dataset(sd.Dataset.range(8).batch(4, drop_remainder=drop_remainder))
    spec = iter(data).element_spec
    assert (spec, spec.shape, spec.dtype) == (data.element_spec, (rows,), "int32")
