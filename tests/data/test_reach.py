"""What a function reaches: which changes give it another key, what cannot be compared, and what draws."""

from __future__ import annotations

import functools
import math
import random
import time
import types
import uuid
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import simdist as sd
from simdist.data.reach import UNKNOWN, reached
from simdist.lookup import StringLookup

THRESHOLD = 100
MEAN = np.zeros(3, np.float32)
NESTED: Any = {"levels": [1, [2, 3]], "named": {"a"}}
RNG = np.random.default_rng(0)
PATH = "nowhere"


@dataclass
class Settings:
    threshold: int = 1


class Slotted:
    __slots__ = ("threshold",)


class Parent:
    level = 1

    def __init__(self) -> None:
        self.rng = RNG
        self.factor = 2

    def parse(self, x: Any) -> Any:
        return x * self.factor + self.level

    def draw(self, x: Any) -> Any:
        return x * self.rng.random()


class Child(Parent):
    pass


class Color(Enum):
    RED = [1]  # noqa: RUF012


Pair = namedtuple("Pair", "first second")  # pyright: ignore[reportUntypedNamedTuple]
SETTINGS, SLOTTED, CHILD, PAIR = Settings(), Slotted(), Child(), Pair(1, [2])
MODULE = types.ModuleType("tests_of_reach")
MODULE.threshold = 1  # pyright: ignore[reportAttributeAccessIssue]


def is_big(x: Any) -> bool:
    return x > THRESHOLD


def calls_itself(x: Any) -> Any:
    return x if x < 1 else calls_itself(x - is_big(x))


def doubled(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(fn)
    def call(x: Any) -> Any:
        return 2 * fn(x)

    return call


@doubled
def decorated(x: Any) -> Any:
    return x + MEAN[0]


def counted() -> tuple[Callable[[Any], Any], Callable[[], None]]:
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    return lambda x: x + count, step


COUNTED, STEP = counted()


def with_default(x: Any, sizes: list[int] = [1]) -> Any:  # noqa: B006
    return x + sizes[0]


CHANGES: dict[str, tuple[Callable[..., Any], Callable[[], Any], Callable[[], Any]]] = {
    "global of a called function": (lambda x: is_big(x), lambda: globals().update(THRESHOLD=120), lambda: globals().update(THRESHOLD=100)),
    "global behind a recursion": (calls_itself, lambda: globals().update(THRESHOLD=120), lambda: globals().update(THRESHOLD=100)),
    "number in an array": (lambda x: x - MEAN, lambda: MEAN.__setitem__(1, 5), lambda: MEAN.__setitem__(1, 0)),
    "array behind a decorator": (decorated, lambda: MEAN.__setitem__(0, 5), lambda: MEAN.__setitem__(0, 0)),
    "entry deep in a dict": (lambda x: NESTED, lambda: NESTED["levels"][1].append(4), lambda: NESTED["levels"][1].pop()),
    "entry of a set": (lambda x: NESTED, lambda: NESTED["named"].add("b"), lambda: NESTED["named"].remove("b")),
    "attribute": (lambda x: x > SETTINGS.threshold, lambda: setattr(SETTINGS, "threshold", 2), lambda: setattr(SETTINGS, "threshold", 1)),
    "attribute in a slot": (lambda x: SLOTTED.threshold, lambda: setattr(SLOTTED, "threshold", 2), lambda: delattr(SLOTTED, "threshold")),
    "attribute of a class": (CHILD.parse, lambda: setattr(Parent, "level", 2), lambda: setattr(Parent, "level", 1)),
    "attribute that hides one of a class": (lambda x: CHILD.level, lambda: setattr(CHILD, "level", 2), lambda: delattr(CHILD, "level")),
    "method": (lambda x: CHILD.parse(x), lambda: setattr(Child, "parse", abs), lambda: delattr(Child, "parse")),
    "attribute of a module": (
        lambda x: MODULE.threshold,
        lambda: setattr(MODULE, "threshold", 2),
        lambda: setattr(MODULE, "threshold", 1),
    ),
    "closure": (COUNTED, STEP, lambda: None),
    "default": (with_default, lambda: with_default.__defaults__[0].append(3), lambda: with_default.__defaults__[0].pop()),
    "value of an enumeration": (lambda x: Color.RED.value, lambda: Color.RED.value.append(2), lambda: Color.RED.value.pop()),
    "field of a named tuple": (lambda x: PAIR.second, lambda: PAIR.second.append(2), lambda: PAIR.second.pop()),
    "argument that is bound": (functools.partial(with_default, sizes=MEAN), lambda: MEAN.__setitem__(2, 5), lambda: MEAN.__setitem__(2, 0)),
    "method that is bound": (NESTED.get, lambda: NESTED.update(c=1), lambda: NESTED.pop("c")),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_changes_gives_another_key(name: str) -> None:
    fn, change, restore = CHANGES[name]
    before = reached(fn)
    assert before.key is not None and before.generator is None
    assert before.is_unchanged and reached(fn).key == before.key
    try:
        change()
        assert reached(fn).key != before.key and not before.is_unchanged
    finally:
        restore()


def test_functions_written_anew_are_known_by_what_they_close_over() -> None:
    def make(scale: Any, lookup: StringLookup) -> Any:
        return lambda x: lookup(x) * scale + np.sqrt(2.0) + jnp.add(1, 2) + math.pi

    tables = [StringLookup(vocabulary=["a", *more]) for more in ([], [], ["b"])]
    first = reached(make(np.ones(2), tables[0])).key
    assert first is not None and first == reached(make(np.ones(2), tables[1])).key
    assert first != reached(make(np.ones(2), tables[2])).key
    assert first != reached(make(np.array([1, 2.0]), tables[0])).key != reached(make(np.ones(2, np.float32), tables[0])).key
    assert len({reached(make(scale, tables[0])).key for scale in (1, True, 1.0, -0.0, 0.0, "1", b"1", (1,), [1])}) == 9


def test_attributes_that_no_code_names_do_not_count() -> None:
    found = reached(CHILD.parse)  # CHILD has a random generator, too
    CHILD.rng = np.random.default_rng(1)
    assert found.key is not None and found.generator is None and found.is_unchanged


NOT_COMPARED: dict[str, Callable[..., Any]] = {
    "file": lambda path: open(PATH).read(),  # noqa: PTH123, SIM115
    "numpy reads a file": lambda path: np.load(PATH),
    "attribute by a name that is computed": lambda x: getattr(SETTINGS, "thresh" + "old"),
    "layer": keras.layers.Rescaling(2.0),
    "compiled function": jax.jit(lambda x: x * SETTINGS.threshold),
    "transformed function": jax.vmap(lambda x: x * SETTINGS.threshold),
    "remembered results": functools.lru_cache(lambda x: x * SETTINGS.threshold),
    "large array": (lambda array: lambda x: x + array[0])(np.zeros(1 << 20)),
    "many objects": (lambda many: lambda x: x + len(many))([[] for _ in range(10_000)]),
    "deep objects": (lambda deep: lambda x: deep)(functools.reduce(lambda inner, _: [inner], range(200), [1])),
}


@pytest.mark.parametrize("name", NOT_COMPARED)
def test_what_cannot_be_compared_has_no_key(name: str) -> None:
    found = reached(NOT_COMPARED[name])
    assert found.key is None and not found.is_unchanged and found.generator is None


def imports_inside(x: Any) -> Any:
    from numpy.random import rand

    return x * rand()  # noqa: NPY002


class Counter:
    numbers = iter(range(1000))

    def __call__(self, x: Any) -> Any:
        return x + next(self.numbers)


DRAWING: dict[str, Callable[..., Any]] = {
    "generator": lambda x: -x if RNG.random() < 0.05 else x,
    "module of numpy": lambda x: x * np.random.rand(),  # noqa: NPY002
    "module of Python": lambda x: x * random.random(),
    "object of Python": (lambda rng: lambda x: x * rng.random())(random.Random(1)),
    "method of a generator": RNG.integers,
    "import inside": imports_inside,
    "behind a method": lambda x: CHILD.draw(x),
    "behind a decorator": doubled(lambda x: x * RNG.random()),
    "behind a compiled function": jax.jit(lambda x: x * RNG.random()),
    "entry of a dict": (lambda tools: lambda x: tools["rng"].random())({"rng": RNG}),
    "seed generator": (lambda seeds: lambda x: keras.random.normal((1,), seed=seeds))(keras.random.SeedGenerator(1)),
    "numbers of Keras": lambda x: x + keras.random.uniform((1,)),
    "layer": keras.layers.RandomFlip(),
    "layer that is called": (lambda layer: lambda x: layer(x))(keras.layers.RandomFlip()),
    "clock": lambda x: x + time.time(),
    "uuid": lambda x: str(uuid.uuid4()),
    "iterator": (lambda numbers: lambda x: [*numbers])(iter([1, 2])),
    "next": lambda x: next(x),
    "object that is called": Counter(),
}


@pytest.mark.parametrize("name", DRAWING)
def test_what_draws_is_found(name: str) -> None:
    found = reached(DRAWING[name])
    assert found.generator is not None and found.key is None


def test_a_class_of_generators_is_no_generator() -> None:
    first, second = [list(sd.Dataset.range(3).map(lambda x: x * Random(3).randint(5, 9)).take(3)) for _ in range(2)]
    assert [int(x) for x in first] == [int(x) for x in second] == [x * Random(3).randint(5, 9) for x in range(3)]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jax.random.normal(jax.random.key(int(x))),
        lambda x: time.sleep(0),
        lambda x: uuid.uuid5(uuid.NAMESPACE_DNS, str(x)).int,
        lambda x: sorted(map(abs, reversed(x))),
        lambda x: [y for y, _ in zip(x, enumerate(x), strict=True)],
    ],
)
def test_what_depends_on_its_arguments_alone_draws_nothing(fn: Callable[..., Any]) -> None:
    assert reached(fn).generator is None


def test_datasets_are_known_by_themselves_and_nothing_is_read_of_their_code() -> None:
    first, second = sd.Dataset.range(3), sd.Dataset.range(4)

    def of(dataset: sd.Dataset) -> Callable[[int], sd.Dataset]:
        return lambda n: sd.Dataset.range(n).concatenate(dataset)

    assert reached(of(first)).key == reached(of(first)).key != reached(of(second)).key
    assert reached(of(first)).key is not None


def test_objects_of_simdist_are_not_certain_and_not_read() -> None:
    strategy, called = sd.MirroredStrategy(2), list[int]()
    with strategy.scope():
        variable = sd.Variable(2.0)

    def scaled(x: int) -> Any:
        called.append(x)
        return x * strategy.num_replicas_in_sync * variable.numpy()

    found = reached(scaled)
    scaled(3)
    assert found is not UNKNOWN and found.key is None
    assert found.put_back() and not called


def test_a_class_whose_module_is_no_text_is_that_of_a_package() -> None:
    class Nameless(type):
        __module__ = 3  # pyright: ignore[reportAssignmentType, reportIncompatibleVariableOverride]

    class Held(metaclass=Nameless):
        pass

    assert reached(lambda: Held).generator is None
    assert reached(lambda: Held().x).generator is None  # pyright: ignore[reportAttributeAccessIssue]
