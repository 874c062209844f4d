"""A block of a campaign: some scenarios, one after the other, in the process that is running.

``python -m simdist.chaos.block`` is what a campaign starts: it reads a request from its standard input, and writes a line of
JSON before and after each scenario, so that the parent process knows which scenario hangs.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field

from simdist.chaos.drawing import calm, disturbed
from simdist.chaos.evidence import Print
from simdist.chaos.examining import Finding, broken, evidence_of, still_there, warm_up
from simdist.chaos.runs import run
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.shrinking import breaks, shrink
from simdist.runtime.simulated.world import World

__all__ = ["Examined", "Request", "examine_number", "examined"]

COLLECTED_EVERY = 25
TWICE_EVERY = 3


@dataclass(frozen=True)
class Request:
    """The scenarios of a block.

    Args:
        seed: of the campaign.
        numbers: of the scenarios.
        workload: the only one; None: all.
        timing_only: share of the scenarios that compute no numbers.
        prints: fingerprints to compare with, by number: those of runs in another process.
    """

    seed: int
    numbers: tuple[int, ...]
    workload: str | None = None
    timing_only: float = 0.875
    prints: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])


@dataclass
class Examined:
    """The result of one scenario.

    Args:
        number, scenario: which.
        findings: what is wrong.
        kinds: the kinds of disturbance that happened in it.
        print: the fingerprint of its run: digest and bits.
        error: the class of the error with which it ended; empty: it ended well.
        seconds: of real time that all its runs took.
    """

    number: int
    scenario: Scenario
    findings: list[Finding]
    kinds: list[str]
    print: tuple[str, str]
    error: str
    seconds: float

    def to_json(self) -> str:
        record = {**asdict(self), "scenario": self.scenario.to_json(), "findings": [asdict(finding) for finding in self.findings]}
        return json.dumps(record)

    @classmethod
    def from_json(cls, given: Options) -> Examined:
        findings = [Finding(**finding) for finding in given["findings"]]
        record: Options = {
            **given,
            "scenario": Scenario.from_json(given["scenario"]),
            "findings": findings,
            "print": tuple(given["print"]),
        }
        return cls(**record)


def examined(request: Request, begins: Callable[[int], None] = lambda number: None) -> Iterator[Examined]:
    """Examine the scenarios of a request; whether their clusters are collected is found out for some at a time."""
    warm_up()
    waiting: list[tuple[Examined, weakref.ref[World]]] = []
    for number in request.numbers:
        begins(number)
        waiting.append(examine_number(request, number))
        if len(waiting) >= COLLECTED_EVERY:
            yield from _collected(waiting)
            waiting.clear()
    yield from _collected(waiting)


def examine_number(request: Request, number: int) -> tuple[Examined, weakref.ref[World]]:
    """Draw a scenario and examine it; also a weak reference to what must be collected when it is over."""
    began = time.perf_counter()
    undisturbed = run(calm(request.seed, number, request.workload, request.timing_only))
    try:
        scenario = disturbed(undisturbed.scenario, undisturbed.ground(), request.seed, number)
        with evidence_of(scenario, undisturbed, again=number % TWICE_EVERY == 0) as evidence:
            if number in request.prints:
                evidence.elsewhere = Print(*request.prints[number])
            findings = broken(evidence)
            mine, error = Print.of(evidence.run), evidence.run.error
            kinds = sorted({d.kind for d in evidence.run.fired})
            remembered = weakref.ref(evidence.run.cluster.world)
    finally:
        undisturbed.close()
    how = "" if error is None else type(error).__name__
    seconds = time.perf_counter() - began
    return Examined(number, scenario, findings, kinds, (mine.digest, mine.bits), how, seconds), remembered


def _collected(waiting: Iterable[tuple[Examined, weakref.ref[World]]]) -> Iterator[Examined]:
    gc.collect()
    for result, remembered in waiting:
        result.findings += still_there(remembered)
        yield result


def main() -> None:
    """Serve one request."""
    given = json.loads(sys.stdin.read())
    if "shrink" in given:
        small = shrink(Scenario.from_json(given["shrink"]), breaks(given["invariant"]), given["limit_s"])
        print(json.dumps({"small": small.to_json()}), flush=True)
        return
    prints = {int(number): tuple(value) for number, value in given.pop("prints").items()}
    request = Request(numbers=tuple(given.pop("numbers")), prints=prints, **given)
    for result in examined(request, lambda number: print(json.dumps({"begins": number}), flush=True)):
        print(result.to_json(), flush=True)


if __name__ == "__main__":
    main()
