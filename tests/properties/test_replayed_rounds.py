"""Training in rounds is the average of each round's gradients, applied in the order of the rounds, whatever fails meanwhile."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist.errors import UnavailableError
from simdist.runtime import combined_updates
from simdist.runtime.serving import Round
from simdist.runtime.simulated.rounds import RoundServer
from tests.properties.replayed_rounds import RoundReplay, counted_rounds
from tests.properties.replayed_updates import Rule, Training
from tests.properties.test_replayed_updates import faults

SEEDS = range(300)
WITH_CRASHES = 9, 21


def run_in_rounds(seed: int) -> tuple[Training, list[Round]]:
    """A random cluster, rule, partition, plan of numbers, mode and recovery, under random faults."""
    draw = random.Random(seed)
    servers, workers = draw.randint(1, 3), draw.randint(1, 4)
    jitter = draw.choice([None, sd.hardware.TwoPoint(1.0, 5.0, probability=0.3)])
    hardware = {} if jitter is None else {"worker": sd.hardware.Device(jitter=jitter)}
    numerics: Any = draw.choice(["deferred", "eager", "loop", "replay"])
    cluster = sd.Cluster({"worker": workers, "ps": servers}, hardware=hardware, numerics=numerics)
    options: dict[str, Any] = {"recovery": "replica" if servers > 1 and draw.random() < 0.7 else "raise"}
    match draw.choice(["sync", "backup", "bounded", "bounded"]):
        case "backup" if workers > 1:
            options |= {"mode": "sync", "backup_workers": draw.randint(1, workers - 1)}
        case "bounded":
            options |= {"mode": "bounded", "staleness": draw.randint(0, 3)}
        case _:
            options |= {"mode": "sync"}
    options["exactly_once"] = draw.random() < 0.5
    faults(cluster, draw, options["recovery"] == "replica")
    rule = Rule(draw.choice([0.0, 0.9, None]))
    with counted_rounds() as rounds:
        run = Training(cluster, rule, draw.randint(10, 40), 1, draw.choice([None, 2, 3]), options)
    return run, rounds


def check(run: Training, rounds: list[Round]) -> RoundReplay:
    """The run is what its rounds say: variables, losses, and that each closure counts once."""
    replay = RoundReplay(run, rounds, run.options.get("staleness", 0))
    assert sorted(replay.missing) == list(range(run.closures)), "a closure is lost"
    for closure, missing in replay.missing.items():
        assert missing < 1e-4 * max(1.0, run.losses[closure]), f"closure {closure} has read what no version explains"
    for found, wanted in zip(run.values, replay.held[-1], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=3e-5)
    return replay


@pytest.mark.parametrize("seed", sampled(SEEDS, [0, 13, 38]))
def test_variables_are_what_the_averages_of_the_rounds_make_of_them(seed: int) -> None:
    try:
        check(*run_in_rounds(seed))
    except UnavailableError as error:
        assert "was lost too" in str(error)  # two servers that are neighbours have died


def test_faults_hit_what_is_replayed() -> None:
    """A closure that ran again, a server that came back, and reads from which rounds were missing are among them."""
    replays = [check(*run_in_rounds(seed)) for seed in WITH_CRASHES]
    lanes = {(instant.category, instant.lane[:2]) for replay in replays for instant in replay.training.cluster.trace.instants}
    assert {("crash", "wo"), ("crash", "ps"), ("restart", "ps"), ("retry", "wo")} <= lanes
    assert any(any(behind) for replay in replays for behind in replay.behind.values())


def calm(slow_server: bool = False) -> tuple[Training, list[Round]]:
    """Synchronous rounds; the next reads come to a slow server before it has applied the last round."""
    cluster = sd.Cluster({"worker": 3, "ps": 2})
    if slow_server:
        cluster.faults.slow("ps:0", 10, at=0.0, until=1.0)
    with counted_rounds() as rounds:
        run = Training(cluster, Rule(0.9), 12, 1, 2, {"mode": "sync"})
    return run, rounds


def test_a_replay_sees_which_closures_count_for_a_round() -> None:
    run, rounds = calm()
    check(run, rounds)
    (first, *others), (second, *more) = rounds[1].closures, rounds[2].closures
    rounds[1:3] = [replace(rounds[1], closures=(second, *others)), replace(rounds[2], closures=(first, *more))]
    with pytest.raises(AssertionError, match="no version explains"):
        check(run, rounds)


@pytest.mark.parametrize("given, words", [(0, "is lost"), (2, "counts twice")])
def test_a_replay_sees_that_a_closure_counts_once(given: int, words: str) -> None:
    run, rounds = calm()
    rounds[-1] = replace(rounds[-1], closures=(*rounds[-1].closures[1:], *rounds[-1].closures[:1] * given))
    with pytest.raises(AssertionError, match=words):
        check(run, rounds)


def test_a_replay_sees_servers_that_do_not_let_reads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    check(*calm(slow_server=True))
    monkeypatch.setattr(RoundServer, "wait", lambda *given: False)
    with pytest.raises(AssertionError, match="no version explains"):
        check(*calm(slow_server=True))


def test_a_replay_sees_a_round_that_is_added_up_instead_of_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    summed = combined_updates.combining
    monkeypatch.setattr(combined_updates, "combining", lambda _, count, given: summed("sum", count, given))
    monkeypatch.setattr(combined_updates, "mean_of", lambda total, count, dtype: total)  # of rows
    with pytest.raises(AssertionError):
        check(*calm())
