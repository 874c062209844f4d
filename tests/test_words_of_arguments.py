"""Words, lists and values in messages: one check for all arguments, whatever is given."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import collectives
from simdist.arguments import known_word, listed, shown, whole_number
from simdist.errors import InvalidArgumentError


class NoTruth:
    """What raises when it is compared, shown, or taken for true or false."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __bool__(self) -> bool:
        raise RuntimeError("taken for true or false")

    def __repr__(self) -> str:
        raise RuntimeError("shown")

    __hash__ = object.__hash__


SERVERS = sd.Cluster({"worker": 2, "ps": 2})
WORKERS = sd.Cluster({"worker": 2})
TABLE = sd.ParameterServerStrategy(SERVERS)
CALLS: dict[str, Callable[[Any], object]] = {
    "engine": lambda word: sd.Cluster({"worker": 1}, engine=word),
    "numerics": lambda word: sd.Cluster({"worker": 1}, numerics=word),
    "restart": lambda word: WORKERS.launch(lambda: None, restart=word),
    "mode": lambda word: sd.ParameterServerStrategy(SERVERS, mode=word),
    "placement": lambda word: sd.ParameterServerStrategy(SERVERS, placement=word),
    "recovery": lambda word: sd.ParameterServerStrategy(SERVERS, recovery=word),
    "on_failure": lambda word: sd.MultiWorkerMirroredStrategy(WORKERS, on_failure=word),
    "implementation": lambda word: sd.CommunicationOptions(implementation=word),
    "algorithm": lambda word: sd.CommunicationOptions(algorithm=word),
    "writers": lambda word: sd.CheckpointOptions(writers=word),
    "output_mode": lambda word: sd.StringLookup(vocabulary=["a"], output_mode=word),
    "standardize": lambda word: sd.TextVectorization(standardize=word),
    "vocabulary_dtype": lambda word: sd.IntegerLookup(vocabulary_dtype=word),
    "aggregation": lambda word: sd.Variable(0.0, aggregation=word),
    "device_kind": lambda word: collectives.choose(2, 8.0, 1e-6, 1e9, device_kind=word),
    "kind": lambda word: collectives.bus_bandwidth(word, 2, 8.0, 1.0),
    "sparse_combiner": lambda word: sd.estimator.LinearClassifier([sd.feature_column.numeric_column("x")], sparse_combiner=word),
}


@pytest.mark.parametrize(
    "given", [np.zeros(2), np.array(["a", "b"]), NoTruth(), ["async"], " sum "], ids=lambda given: type(given).__name__
)
@pytest.mark.parametrize("argument", CALLS)
def test_what_is_no_word_is_refused_by_the_name_of_its_argument(argument: str, given: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{argument}=.* is not known; use one of"):
        CALLS[argument](given)


def test_a_word_of_numpy_is_one_and_a_near_one_is_proposed() -> None:
    assert type(known_word(np.str_("ring"), "algorithm", ["ring"])) is str
    with pytest.raises(InvalidArgumentError, match=r"algorithm='Ring' is not known; use one of 'ring', 'tree'\. Did you mean 'ring'\?$"):
        known_word("Ring", "algorithm", ["ring", "tree"])


def test_a_cluster_after_a_refused_restart_runs_its_mains() -> None:
    with pytest.raises(InvalidArgumentError, match="restart="):
        WORKERS.launch(lambda: 1, restart=np.zeros(2))  # type: ignore[arg-type]
    ran: list[int] = []
    WORKERS.launch(lambda: ran.append(1)).join()
    assert ran == [1, 1]


@pytest.mark.parametrize("given", ["ab", b"ab", {"a": 1}, 3, np.array(3), NoTruth(), {1, 2}], ids=lambda given: type(given).__name__)
def test_one_value_is_no_list(given: Any) -> None:
    with pytest.raises(TypeError, match=r"sizes is .*; expected a list of numbers"):
        listed(given, "sizes", "numbers")


def test_an_error_in_a_generator_of_the_user_stays_what_it_is() -> None:
    def sizes() -> Any:
        yield 1
        raise TypeError("mine")

    assert listed(iter([1, 2]), "sizes", "numbers") == [1, 2]
    with pytest.raises(TypeError, match=r"^mine$"):
        listed(sizes(), "sizes", "numbers")


def test_a_message_shows_every_value() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "a list that is too large to show"
    assert len(shown("x" * 5000)) < 300
    for given in (deep, NoTruth()):
        with pytest.raises(TypeError, match="expected an integer"):
            whole_number(given, "seed")
    with pytest.raises(InvalidArgumentError, match="an int that is too large to show; expected at most 8"):
        whole_number(10**5000, "seed", at_most=8)


class Words(Enum):
    """Choices of another library, whose members stand for their values."""

    BOUNDED = "bounded"
    REPLICA = "replica"
    RING = "ring"
    OWNERS = "owners"
    LOWER = "lower"


def test_members_of_an_enum_are_kept_as_their_words() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, mode=Words.BOUNDED, staleness=1, recovery=Words.REPLICA)  # type: ignore[arg-type]
    assert (strategy.mode, strategy.staleness, strategy.serving.recovery) == ("bounded", 1, "replica")
    assert sd.CommunicationOptions(algorithm=Words.RING).algorithm == "ring"  # type: ignore[arg-type]
    assert sd.CheckpointOptions(writers=Words.OWNERS).writers == "owners"  # type: ignore[arg-type]
    assert sd.TextVectorization(standardize=Words.LOWER).standardize == "lower"
