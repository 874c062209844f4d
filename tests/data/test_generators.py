"""Generators with a signature: each element is as it says, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset
from simdist.errors import InvalidArgumentError

PAIR = (ArraySpec((2,), "float32"), ArraySpec((), "int32"))


def generated(*elements: Any, signature: Any) -> list[Any]:
    return list(Dataset.from_generator(lambda: iter(elements), output_signature=signature))


def test_numbers_get_the_dtype_of_the_signature() -> None:
    ((x, y),) = generated(([1, 2], np.int8(7)), signature=PAIR)
    assert x.dtype == np.float32 and y.dtype == np.int32 and x.tolist() == [1, 2] and y == 7


def test_a_spec_of_any_library_will_do() -> None:
    (x,) = generated(np.zeros((3, 2)), signature=jax.ShapeDtypeStruct((3, 2), np.float32))
    assert x.dtype == np.float32
    (word,) = generated("ab", signature=ArraySpec((), "string"))
    assert str(word) == "ab"


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (([1, 2, 3], 4), r"gave int32\[3\]; its signature says float32\[2\]"),
        (([1, 2], 4.5), r"gave float32\[\]; its signature says int32\[\]"),
        (([1, 2], "four"), r"its signature says int32\[\]"),
        ([1, 2], r"gave int32\[\]; its signature says float32\[2\]"),
        ((1, 2, 3), "its signature says PyTreeDef"),
        ({"x": 1}, "its signature says PyTreeDef"),
    ],
)
def test_an_element_that_does_not_fit_is_refused(element: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        generated(element, signature=PAIR)


def test_a_number_never_becomes_another_one() -> None:
    with pytest.raises(InvalidArgumentError, match=r"gave int32\[\]; its signature says int8"):
        generated(300, signature=ArraySpec((), "int8"))
    assert generated(1.0, signature=ArraySpec((), "int32"))[0] == 1
    for number, dtype in ((1e6, "float16"), (float("nan"), "int32"), (16_777_217, "float32")):
        with pytest.raises(InvalidArgumentError, match=f"its signature says {dtype}"):
            generated(number, signature=ArraySpec((), dtype))
    assert np.isinf(generated(float("inf"), signature=ArraySpec((), "float16"))[0])


def test_arguments_go_to_the_generator() -> None:
    def numbers(count: Any, scale: Any) -> Iterator[Any]:
        assert isinstance(count, np.int32)
        yield from (np.arange(count) * scale[0]).tolist()

    dataset = Dataset.from_generator(numbers, args=(3, [2]), output_signature=ArraySpec((), "int32"))
    assert [int(x) for x in dataset] == [int(x) for x in dataset] == [0, 2, 4]


def test_the_signature_says_what_elements_are_like_and_nothing_is_called() -> None:
    def never() -> Iterator[Any]:
        raise AssertionError("called")

    dataset = Dataset.from_generator(never, output_signature={"x": ArraySpec((None, 3), "float32")})
    assert dataset.element_spec == {"x": ArraySpec((None, 3), "float32")} and dataset.cardinality() == -2
    assert dataset.batch(4).element_spec == {"x": ArraySpec((None, None, 3), "float32")}


def test_without_a_signature_the_elements_tell() -> None:
    dataset = Dataset.from_generator(lambda: iter([1.5, 2.5]))
    assert dataset.element_spec == ArraySpec((), "float32") and [float(x) for x in dataset] == [1.5, 2.5]


def test_a_list_of_components_is_a_tuple() -> None:
    ((x, y),) = generated([[1.0, 2.0], 3], signature=PAIR)
    assert x.tolist() == [1, 2] and y == 3


@pytest.mark.parametrize("dtype", [np.float32, jax.numpy.float32, float, np.dtype("float32")])
def test_a_dtype_may_be_a_class(dtype: Any) -> None:
    dataset = Dataset.from_generator(lambda: iter([[1, 2]]), output_signature=ArraySpec((2,), dtype))
    assert dataset.element_spec == ArraySpec((2,), "float32")


@pytest.mark.parametrize("signature", [3, "float32", (ArraySpec((), "float32"), None, 4), ArraySpec((), "nothing")])
def test_a_signature_of_something_else_is_refused(signature: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="expected specs with a known rank"):
        Dataset.from_generator(lambda: iter([1]), output_signature=signature)


def test_what_is_no_generator_function_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a function that returns an iterable; use from_iterable"):
        Dataset.from_generator([1, 2])  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgumentError, match="expected output_signature"):
        Dataset.from_generator(lambda: [1], output_types="int32")


class Row(NamedTuple):
    x: Any
    y: Any


def test_classes_are_structure() -> None:
    (row,) = generated(Row(1, 2), signature=Row(ArraySpec((), "int32"), ArraySpec((), "float32")))
    assert isinstance(row, Row) and row.y.dtype == np.float32


def test_a_generator_without_a_yield_is_refused_by_its_name() -> None:
    def numbers(*_: object) -> Any:
        list(range(3))

    for dataset in (
        Dataset.from_generator(numbers, output_signature=ArraySpec((), "int32")),
        Dataset.from_generator(numbers, args=(3,)),
        Dataset.from_iterable(numbers),
    ):
        with pytest.raises(TypeError, match=r"'numbers' returned NoneType; expected an iterable.*yield"):
            list(dataset.batch(2))


def test_what_can_only_be_subscripted_is_an_iterable() -> None:
    class Squares:
        def __getitem__(self, at: int) -> int:
            if at > 2:
                raise IndexError
            return at * at

    assert list(map(int, Dataset.from_generator(lambda: Squares(), output_signature=ArraySpec((), "int32")))) == [0, 1, 4]
