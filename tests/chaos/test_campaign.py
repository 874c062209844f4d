"""Campaigns: what they count, what they do with a scenario that hangs, what they print; and a sample of scenarios."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sampling import sampled
from simdist.__main__ import main
from simdist.chaos import Disturbance, Scenario
from simdist.chaos import block as blocks
from simdist.chaos import campaign as campaigns
from simdist.chaos.block import Examined, Request, examined
from simdist.chaos.campaign import Campaign, Report
from simdist.chaos.children import Hung, examined_in_a_child
from simdist.chaos.examining import Finding
from simdist.chaos.kinds import KINDS
from simdist.chaos.reproduction import program
from simdist.chaos.runs import ScenarioRun
from simdist.chaos.shrinking import shrink

CRASHES = tuple(Disturbance("crash", f"worker:{n % 3}", at_s=0.1 * n, figures={"restart_after": None}) for n in range(4))
BIG = Scenario("coordinator", {"script": "ssspsjssz", "callers": 2}, workers=9, servers=3, disturbances=CRASHES, seed=3)


def result(number: int, *names: str, kinds: tuple[str, ...] = (), scenario: Scenario = BIG) -> Examined:
    return Examined(number, scenario, [Finding(name, "why") for name in names], list(kinds), ("digest", "bits"), "", 0.5)


# -- the sample that every change is tried on ------------------------------------------------------------------------


@pytest.mark.parametrize("block", sampled(range(12), range(1)))
def test_nothing_is_wrong_in_a_block_of_random_scenarios(block: int) -> None:
    request = Request(seed=2026, numbers=tuple(range(25 * block, 25 * block + 25)), timing_only=0.95)
    wrong = [f"{one.number} ({one.scenario.workload}): {finding}" for one in examined(request) for finding in one.findings]
    assert not wrong, "\n".join(wrong)


# -- counting ---------------------------------------------------------------------------------------------------------


def test_a_report_counts_workloads_kinds_and_failures() -> None:
    report = Report()
    report.add(result(0, kinds=("crash", "slow")))
    report.add(result(1, "never-hangs", "right-end", "right-end", kinds=("crash",)))
    report.add(result(2, "right-end"))
    assert (report.scenarios, report.kinds["crash"], report.workloads["coordinator"], report.ok) == (3, 2, 3, False)
    assert {name: len(found) for name, found in report.by_invariant().items()} == {"right-end": 2, "never-hangs": 1}
    text = "\n".join(report.lines())
    assert "3 scenarios, 2 of them failed" in text and "crash in 2" in text and "right-end: 2 scenarios, such as 1, 2" in text


def in_no_time(kinds: tuple[str, ...]) -> Any:
    """Examines nothing, and says that all is well."""

    def stub(request: Request, hash_seed: int, limit_s: float) -> Iterator[Examined]:
        return (result(number, kinds=kinds) for number in request.numbers)

    return stub


@pytest.mark.parametrize(("scenarios", "unseen"), [(299, []), (300, [kind for kind in KINDS if kind != "crash"])])
def test_a_kind_that_never_happened_fails_a_large_campaign(monkeypatch: pytest.MonkeyPatch, scenarios: int, unseen: list[str]) -> None:
    monkeypatch.setattr(campaigns, "examined_in_a_child", in_no_time(("crash",)))
    report = Campaign(seed=1, scenarios=scenarios).run()
    assert (report.scenarios, report.unseen, report.ok) == (scenarios, unseen, not unseen)
    assert ("slow never happened" in "\n".join(report.lines())) == bool(unseen)


def test_without_numbers_nobody_misses_kinds_that_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "examined_in_a_child", in_no_time(tuple(kind for kind in KINDS if kind != "interrupt")))
    assert Campaign(seed=1, scenarios=300, timing_only=1.0).run().ok


# -- children ---------------------------------------------------------------------------------------------------------


def test_a_hanging_scenario_is_a_failure_and_the_others_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs_at_3(request: Request, hash_seed: int, limit_s: float) -> Iterator[Examined]:
        for number in request.numbers:
            if number == 3:
                raise Hung(3, "it did not end")
            if number < 2 or 3 not in request.numbers:  # the second waited for the next collection
                yield result(number)

    monkeypatch.setattr(campaigns, "examined_in_a_child", hangs_at_3)
    seen: list[Examined] = []
    monkeypatch.setattr(Report, "add", lambda report, one: seen.append(one))
    Campaign(seed=1, scenarios=6).run()
    assert [one.number for one in seen] == [0, 1, 2, 3, 4, 5]
    assert [finding.invariant for one in seen for finding in one.findings] == ["never-hangs"]


def test_a_child_gives_the_digest_of_this_process_and_its_end_is_noticed() -> None:
    request = Request(seed=7, numbers=(0, 1), workload="mains")
    here = [(one.number, one.scenario, one.print) for one in examined(request)]
    assert [(one.number, one.scenario, one.print) for one in examined_in_a_child(request, hash_seed=5, limit_s=60.0)] == here
    with pytest.raises(Hung, match="status 1"):
        list(examined_in_a_child(replace(request, workload="no such"), hash_seed=5, limit_s=60.0))


def test_another_digest_in_another_process_is_a_finding() -> None:
    request = Request(seed=7, numbers=(0,), workload="mains", prints={0: ("another", "bits")})
    assert "same-digest" in {finding.invariant for one in examined(request) for finding in one.findings}


def test_a_cluster_that_somebody_keeps_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    close = ScenarioRun.close
    monkeypatch.setattr(ScenarioRun, "close", lambda one: (kept.append(one.cluster), close(one)))
    (one,) = examined(Request(seed=7, numbers=(1,), workload="mains"))
    assert "closed-is-collected" in {finding.invariant for finding in one.findings}
    assert kept and blocks.COLLECTED_EVERY >= 2


# -- making it smaller, and a program of it ------------------------------------------------------------------------------


def test_a_failing_scenario_shrinks_to_what_is_needed() -> None:
    def fails(scenario: Scenario) -> bool:
        return any(d.task == "worker:2" for d in scenario.disturbances) and "z" in scenario.options["script"]

    small = shrink(BIG, fails)
    assert (small.workers, small.servers, small.options, small.seed) == (3, 1, {"script": "z", "callers": 1}, 0)
    assert [d.task for d in small.disturbances] == ["worker:2"]


def test_a_partition_shrinks_to_one_against_one_and_to_tasks_that_are_there() -> None:
    sides = {"a": ["worker:1", "worker:3"], "b": ["worker:0", "ps:0", "worker:4"], "one_way": True, "until": None}
    big = replace(BIG, disturbances=(Disturbance("partition", "worker:1", at_s=0.1, figures=sides),))
    small = shrink(big, lambda scenario: any("worker:3" in d.figures["a"] for d in scenario.disturbances))
    (cut,) = small.disturbances
    assert (small.workers, cut.task, cut.figures["a"], len(cut.figures["b"])) == (4, "worker:3", ["worker:3"], 1)
    assert Scenario.from_json(small.to_json()) == small


def test_shrinking_ends_when_its_time_is_over() -> None:
    began = time.monotonic()
    assert shrink(BIG, lambda scenario: True, limit_s=0.0) == BIG
    assert time.monotonic() - began < 5.0


def test_a_reproduction_is_a_program_that_gives_the_same_scenario() -> None:
    source = program(BIG)
    assert len(source.splitlines()) < 25
    names: dict[str, Any] = {}
    exec(source.replace("examine(scenario)", "()"), names)
    assert names["scenario"] == BIG


def test_the_program_of_a_healthy_scenario_prints_nothing() -> None:
    source = program(Scenario("mains", {"naps": 1, "nap_s": 0.5}))
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=True)
    assert done.stdout == ""


# -- the command line ----------------------------------------------------------------------------------------------------


def test_the_command_refuses_an_unknown_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--workload", "nothing"]) == 2
    assert "trained-mains" in capsys.readouterr().err


@pytest.mark.parametrize(("names", "status"), [((), 0), (("right-end",), 1)])
def test_the_command_ends_with_1_where_something_is_wrong(
    names: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaigns, "examined_in_a_child", lambda request, **_: iter([]))
    monkeypatch.setattr(Campaign, "_block", lambda campaign, numbers: (result(number, *names) for number in numbers))
    assert main(["chaos", "--scenarios", "3", "--shrink", "0"]) == status
    told = capsys.readouterr().out
    assert "3 scenarios" in told and ("scenario = Scenario(" in told) == bool(names)
