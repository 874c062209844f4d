"""Tables of transitions: what is in them follows, what is not raises, and their diagrams say both."""

from __future__ import annotations

from enum import StrEnum

import pytest

from simdist.transitions import Ignored, ImpossibleFactError, Move, TransitionTable


class Light(StrEnum):
    RED = "red"
    VERY_GREEN = "very_green"
    BROKEN = "broken"


class Fact(StrEnum):
    TIME = "time"
    STONE = "stone"
    RAIN = "rain"


class Order(StrEnum):
    STOP = "stop"
    CALL_SOMEBODY = "call_somebody"


TABLE: TransitionTable[Light, Fact, Order] = TransitionTable(
    "traffic light",
    Light.RED,
    {
        (Light.RED, Fact.TIME): Move(Light.VERY_GREEN),
        (Light.VERY_GREEN, Fact.TIME): Move(Light.RED, (Order.STOP,)),
        (Light.VERY_GREEN, Fact.STONE): Move(Light.BROKEN, (Order.STOP, Order.CALL_SOMEBODY)),
        (Light.VERY_GREEN, Fact.RAIN): Ignored("waterproof"),
        (Light.BROKEN, Fact.RAIN): Ignored("broken"),
    },
)


def test_a_fact_in_the_table_leads_to_its_state_and_decisions() -> None:
    assert TABLE.after(Light.VERY_GREEN, Fact.TIME) == Move(Light.RED, (Order.STOP,))
    assert TABLE.after(Light.VERY_GREEN, Fact.RAIN) == Ignored("waterproof")


def test_a_fact_that_is_not_in_the_table_raises_and_says_what_could_have_come() -> None:
    expected = r"traffic light: the fact 'rain' is impossible in the state 'red' \(of corner\)\. Possible there: time\."
    with pytest.raises(ImpossibleFactError, match=expected):
        TABLE.after(Light.RED, Fact.RAIN, "corner")
    with pytest.raises(ImpossibleFactError, match="in the state 'very green'"):
        TransitionTable("light", Light.RED, {}).after(Light.VERY_GREEN, Fact.TIME)


def test_the_diagram_has_the_start_each_row_and_the_ends() -> None:
    assert TABLE.diagram().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> red",
        "    red --> very_green: time",
        "    very_green --> red: time / stop",
        "    very_green --> broken: stone / stop, call somebody",
        "    very_green --> very_green: rain (ignored, waterproof)",
        "    broken --> broken: rain (ignored, broken)",
        "    broken --> [*]",
    ]
