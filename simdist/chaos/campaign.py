"""A campaign: many scenarios, in blocks of some hundreds, and a report.

Scenarios run in child processes, one after the other; a sample of them runs in a second process with other hash seeds. A kind of
disturbance that never happened in a campaign of `COVERED` scenarios or more is a failure of the campaign itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from simdist.chaos.block import Examined, Request
from simdist.chaos.children import Hung, examined_in_a_child, shrunk_in_a_child
from simdist.chaos.drawing import calm
from simdist.chaos.examining import Finding
from simdist.chaos.kinds import KINDS, Kind
from simdist.chaos.reproduction import program
from simdist.chaos.workloads import WORKLOADS

__all__ = ["Campaign", "Report", "reproductions"]

BLOCK = 250
COVERED = 300
ELSEWHERE_EVERY = 25


@dataclass
class Report:
    """The failures that a campaign has found.

    Attributes:
        failures: the scenarios with which something is wrong.
        workloads, kinds, errors: how many scenarios ran each workload, had each kind of disturbance, ended with each error.
        seconds: of real time, by workload.
    """

    scenarios: int = 0
    failures: list[Examined] = field(default_factory=list[Examined])
    workloads: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    unseen: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        return not self.failures and not self.unseen

    def add(self, result: Examined) -> None:
        self.scenarios += 1
        name = result.scenario.workload + (" (numbers)" if result.scenario.has_numbers else "")
        self.workloads[name] += 1
        self.seconds[name] = self.seconds.get(name, 0.0) + result.seconds
        self.kinds.update(result.kinds)
        self.errors[result.error or "none"] += 1
        if result.findings:
            self.failures.append(result)

    def by_invariant(self) -> dict[str, list[Examined]]:
        """The failures by the invariant that is broken, those broken most often first."""
        found: dict[str, list[Examined]] = {}
        for failure in self.failures:
            for name in dict.fromkeys(finding.invariant for finding in failure.findings):
                found.setdefault(name, []).append(failure)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    def lines(self) -> Iterator[str]:
        """The report, for people."""
        yield f"{self.scenarios} scenario{'s' * (self.scenarios != 1)}, {len(self.failures)} of them failed"
        for name, count in sorted(self.workloads.items()):
            yield f"  {name:28} {count:6}   {count / max(self.seconds.get(name, 0.0), 1e-9):7.1f} per second"
        yield "  happened: " + (", ".join(f"{kind} in {count}" for kind, count in sorted(self.kinds.items())) or "nothing")
        yield "  ended with: " + ", ".join(f"{error} {count}" for error, count in self.errors.most_common())
        for kind in self.unseen:
            yield f"  {kind} never happened: nothing is known about it"
        for name, failures in self.by_invariant().items():
            yield f"{name}: {len(failures)} scenarios, such as {', '.join(str(failure.number) for failure in failures[:8])}"
            message = next(finding.message for finding in failures[0].findings if finding.invariant == name)
            yield f"  {failures[0].number} ({failures[0].scenario.workload}): {message}"


@dataclass(frozen=True)
class Campaign:
    """The settings of a campaign.

    Args:
        seed: of everything.
        scenarios: how many.
        first: the number of the first one; default 0.
        workload: the only one; None: all.
        timing_only: share of the scenarios that compute no numbers.
        limit_s: seconds of real time that one scenario may take.
        kinds: those that must be seen.
    """

    seed: int
    scenarios: int
    first: int = 0
    workload: str | None = None
    timing_only: float = 0.875
    limit_s: float = 90.0
    kinds: tuple[str, ...] = tuple(KINDS)

    def run(self, tell: Callable[[str], None] = lambda line: None) -> Report:
        """Run the campaign.

        Args:
            tell: is called with a line about each failure, as soon as it is known.
        """
        report = Report()
        stop = self.first + self.scenarios
        for first in range(self.first, stop, BLOCK):
            for result in self._block(tuple(range(first, min(first + BLOCK, stop)))):
                report.add(result)
                if result.findings:
                    tell(f"{result.number} ({result.scenario.workload}): {result.findings[0]}")
        if self.scenarios >= COVERED:
            report.unseen = [name for name in self.kinds if not report.kinds[name] and self._may_happen(KINDS[name])]
        return report

    def _may_happen(self, kind: Kind) -> bool:
        """Whether a kind makes sense in any scenario of this campaign."""
        has_disks = self.workload is None or WORKLOADS[self.workload].uses_disks
        return (self.timing_only < 1 or not kind.needs_numbers) and (has_disks or not kind.needs_disks)

    def _block(self, numbers: tuple[int, ...]) -> Iterator[Examined]:
        """The scenarios of a block, a sample of them with the fingerprints that they had in another process."""
        sample = tuple(number for number in numbers if number % ELSEWHERE_EVERY == 0)
        prints = {result.number: result.print for result in self._surely(sample, {}, hash_seed=7) if not _hung(result)}
        yield from self._surely(numbers, prints, hash_seed=42)

    def _surely(self, numbers: tuple[int, ...], prints: dict[int, tuple[str, str]], hash_seed: int) -> Iterator[Examined]:
        """All of these, in one process after the other where one hangs."""
        while numbers:
            request = Request(self.seed, numbers, self.workload, self.timing_only, prints)
            done = 0
            try:
                for result in examined_in_a_child(request, hash_seed, self.limit_s):
                    done += 1
                    yield result
                return
            except Hung as hung:
                number = max(hung.number, numbers[0])
                # The results before it were not sent yet: they waited for the next collection.
                again = numbers[done : numbers.index(number)]
                if again:
                    yield from self._surely(again, prints, hash_seed)
                yield self._of_hung(number, hung)
                numbers = numbers[numbers.index(number) + 1 :]

    def _of_hung(self, number: int, hung: Hung) -> Examined:
        scenario = calm(self.seed, number, self.workload, self.timing_only)
        return Examined(number, scenario, [Finding("never-hangs", str(hung))], [], ("", ""), "hung", self.limit_s)


def _hung(result: Examined) -> bool:
    return result.error == "hung"


def reproductions(report: Report, limit_s: float = 20.0) -> Iterator[str]:
    """A short program for each broken invariant: its first failure, made smaller.

    Args:
        report: of a campaign.
        limit_s: seconds of real time for making each smaller; 0: as they are.
    """
    for name, failures in report.by_invariant().items():
        shortest = min(failures, key=lambda failure: len(failure.scenario.to_json()))
        small = shrunk_in_a_child(shortest.scenario, name, limit_s) if limit_s > 0 else shortest.scenario
        yield f"# {name}, found in scenario {shortest.number}\n{program(small)}\n"
