"""A scenario as a short program that runs by itself."""

from __future__ import annotations

from dataclasses import fields

from simdist.chaos.scenarios import Chips, Disturbance, Scenario, Wires

__all__ = ["program"]


def program(scenario: Scenario) -> str:
    """Python source that runs a scenario and prints what is wrong with it.

    Example:
        >>> print(program(Scenario("mains", {"naps": 2, "nap_s": 0.5}, workers=2)))
        from simdist.chaos import Scenario, examine
        <BLANKLINE>
        scenario = Scenario(
            workload='mains',
            options={'naps': 2, 'nap_s': 0.5},
            workers=2,
        )
        for finding in examine(scenario):
            print(finding)
    """
    names = ["Scenario", "examine"]
    names += ["Disturbance"] if scenario.disturbances else []
    names += [type(part).__name__ for part in (scenario.wires, scenario.chips) if part != type(part)()]
    arguments = "".join(
        f"    {item.name}={_source(getattr(scenario, item.name))},\n" for item in fields(scenario) if _is_stated(scenario, item.name)
    )
    return (
        f"from simdist.chaos import {', '.join(sorted(names))}\n\n"
        f"scenario = Scenario(\n{arguments})\n"
        "for finding in examine(scenario):\n    print(finding)"
    )


def _is_stated(record: Scenario | Disturbance | Wires | Chips, name: str) -> bool:
    """Whether a field must be written: it differs from the default."""
    item = next(item for item in fields(record) if item.name == name)
    default = item.default_factory() if callable(item.default_factory) else item.default
    return getattr(record, name) != default


def _source(value: object) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], Disturbance):
        return "(\n" + "".join(f"        {_source(item)},\n" for item in value) + "    )"
    if isinstance(value, (Disturbance, Wires, Chips)):
        arguments = [f"{item.name}={_source(getattr(value, item.name))}" for item in fields(value) if _is_stated(value, item.name)]
        return f"{type(value).__name__}({', '.join(arguments)})"
    return repr(value)
