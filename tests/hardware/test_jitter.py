"""Jitter: means and quantiles against closed forms, equal draws of equal seeds, whole nanoseconds."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from simdist import randomness as streams
from simdist.errors import InvalidArgumentError
from simdist.hardware import Exponential, Factors, Jitter, LogNormal, NoJitter, TwoPoint, Uniform, quantised

DRAWS = 20_000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ALL = [NoJitter(), Uniform(0.8, 1.4), LogNormal(0.3), Exponential(2.0), TwoPoint(1.0, 5.0, 0.2)]


def stream(*purpose: object) -> np.random.Generator:
    return streams.generator(7, "worker:0", 0, *purpose)


def draws(jitter: Jitter, *purpose: object) -> np.ndarray:
    factors = jitter.factors(stream(*purpose))
    return np.array([factors.draw() for _ in range(DRAWS)])


def quantile_of(jitter: Jitter, p: float) -> float:
    """The quantile in closed form."""
    match jitter:
        case Uniform(low, high):
            return low + p * (high - low)
        case LogNormal(sigma):
            return math.exp(sigma * NormalDist().inv_cdf(p) - sigma**2 / 2)
        case Exponential(mean):
            return -mean * math.log1p(-p)
        case _:
            raise AssertionError(jitter)


@pytest.mark.parametrize(
    ("jitter", "mean", "variance"),
    [
        (Uniform(0.8, 1.4), 1.1, 0.6**2 / 12),
        (LogNormal(0.3), 1.0, math.exp(0.09) - 1),
        (Exponential(2.0), 2.0, 4.0),
        (TwoPoint(1.0, 5.0, 0.2), 1.8, 16 * 0.2 * 0.8),
        (NoJitter(), 1.0, 0.0),
    ],
)
def test_mean_and_variance_of_draws_are_those_of_the_closed_form(jitter: Jitter, mean: float, variance: float) -> None:
    found = draws(jitter)
    assert jitter.mean == pytest.approx(mean, rel=1e-12)
    assert abs(found.mean() - mean) <= 4 * math.sqrt(variance / DRAWS)
    assert found.var() == pytest.approx(variance, rel=0.06)


@pytest.mark.parametrize("jitter", [Uniform(0.8, 1.4), LogNormal(0.3), LogNormal(1.0), Exponential(), Exponential(2.0)])
@pytest.mark.parametrize("p", QUANTILES)
def test_share_of_draws_below_a_quantile_is_its_probability(jitter: Jitter, p: float) -> None:
    below = float((draws(jitter) <= quantile_of(jitter, p)).mean())
    assert abs(below - p) <= 4 * math.sqrt(p * (1 - p) / DRAWS)


def test_two_points_come_as_often_as_they_should() -> None:
    found = draws(TwoPoint(1.0, 5.0, 0.2))
    assert set(found) == {1.0, 5.0}
    assert abs((found == 5.0).mean() - 0.2) <= 4 * math.sqrt(0.16 / DRAWS)


@pytest.mark.parametrize(("probability", "only"), [(0.0, 1.0), (1.0, 5.0)])
def test_two_points_without_doubt_are_one(probability: float, only: float) -> None:
    assert set(draws(TwoPoint(1.0, 5.0, probability))) == {only}


def test_slowest_of_exponential_workers_takes_a_harmonic_number() -> None:
    slowest = draws(Exponential()).reshape(-1, 10).max(axis=1)
    harmonic = sum(1 / k for k in range(1, 11))
    deviation = math.sqrt(sum(1 / k**2 for k in range(1, 11)) / len(slowest))
    assert abs(slowest.mean() - harmonic) <= 4 * deviation


@pytest.mark.parametrize("jitter", ALL)
def test_same_stream_gives_the_same_factors_singly_and_in_blocks(jitter: Jitter) -> None:
    single, blocks = stream("jitter"), jitter.factors(stream("jitter"))
    assert [jitter.sample(single) for _ in range(3_000)] == [blocks.draw() for _ in range(3_000)]


@pytest.mark.parametrize("jitter", ALL[1:])
def test_another_purpose_or_incarnation_gives_other_factors(jitter: Jitter) -> None:
    assert (draws(jitter, "jitter") != draws(jitter, "other")).any()
    assert jitter.factors(stream()).stream is not jitter.factors(stream()).stream


def test_no_jitter_draws_nothing_and_leaves_durations_as_they_are() -> None:
    used, fresh = stream(), stream()
    factors = NoJitter().factors(used)
    assert [factors.apply(1 / 3) for _ in range(5)] == [1 / 3] * 5
    assert used.random() == fresh.random()


def test_applied_factor_gives_whole_nanoseconds() -> None:
    factors, again = LogNormal(0.5).factors(stream()), LogNormal(0.5).factors(stream())
    for _ in range(2_000):
        duration = factors.apply(0.012345678912)
        assert duration == round(duration * 1e9) / 1e9
        assert duration == pytest.approx(0.012345678912 * again.draw(), abs=0.5e-9)


def test_last_bits_of_a_factor_do_not_move_a_duration() -> None:
    class Nudged(Jitter):
        def __init__(self, ulps: int) -> None:
            self.ulps = ulps

        @property
        def mean(self) -> float:
            return 1.0

        def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
            values = stream.lognormal(0.0, 0.3, size)
            for _ in range(self.ulps):
                values = np.nextafter(values, np.inf)
            return values

    exact, nudged = (Factors(Nudged(ulps), stream()) for ulps in (0, 2))
    assert [exact.apply(0.01) for _ in range(2_000)] == [nudged.apply(0.01) for _ in range(2_000)]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.0, 0.0), (4e-10, 0.0), (6e-10, 1e-9), (0.1, 0.1), (1e4 + 0.3e-9, 1e4), (math.inf, math.inf)]
)
def test_quantised_is_the_nearest_nanosecond(seconds: float, expected: float) -> None:
    assert quantised(seconds) == expected == quantised(expected)


@pytest.mark.parametrize(
    ("make", "arguments", "error", "message"),
    [
        (Uniform, (-0.1, 1.0), InvalidArgumentError, "Uniform: low must be 0 or more"),
        (Uniform, (1.2, 1.0), InvalidArgumentError, "low must be at most high"),
        (Uniform, (0.0, 0.0), InvalidArgumentError, "Uniform: high must be more than 0"),
        (Uniform, (0.5, math.inf), InvalidArgumentError, "high must be finite"),
        (Uniform, ("a", 1.0), TypeError, "low must be a number"),
        (LogNormal, (-0.1,), InvalidArgumentError, "LogNormal: sigma must be 0 or more"),
        (LogNormal, (math.nan,), InvalidArgumentError, "sigma"),
        (LogNormal, (math.inf,), InvalidArgumentError, "sigma must be 0 or more, and less than"),
        (LogNormal, (True,), TypeError, "sigma must be a number"),
        (Exponential, (0.0,), InvalidArgumentError, "Exponential: mean must be more than 0"),
        (Exponential, (math.inf,), InvalidArgumentError, "mean must be finite"),
        (TwoPoint, (1.0, 2.0, 1.1), InvalidArgumentError, "probability must be from 0 to 1"),
        (TwoPoint, (1.0, 2.0, -0.1), InvalidArgumentError, "probability must be 0 or more"),
        (TwoPoint, (3.0, 2.0, 0.1), InvalidArgumentError, "low must be at most high"),
        (TwoPoint, (1.0, 2.0, None), TypeError, "probability must be a number"),
    ],
)
def test_parameters_that_cannot_be_are_refused(make: Any, arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(*arguments)


def test_distributions_are_frozen_and_compare_by_value() -> None:
    assert LogNormal(0.1) == LogNormal(0.1) != LogNormal(0.2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        LogNormal(0.1).sigma = 0.2  # pyright: ignore


class Counting(Jitter):
    """A user's own, which counts what it has drawn."""

    mean = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        self.blocks = 0

    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        self.blocks += 1
        return np.full(size, float(self.blocks))


def test_what_a_jitter_counts_is_of_one_stream() -> None:
    jitter = Counting()
    assert draws(jitter).tolist() == draws(jitter).tolist()
    assert jitter.blocks == 0


class Gives(Jitter):
    """A user's own, which gives this."""

    mean = 1.0  # type: ignore[assignment]

    def __init__(self, given: object) -> None:
        self.given = given

    def block(self, stream: np.random.Generator, size: int) -> Any:
        return self.given


@pytest.mark.parametrize("given", [1.5, [], np.ones(3), np.ones((1024, 1)), ["a"] * 1024, np.ones(1024, complex)])
def test_a_block_that_is_no_factor_for_each_program_is_refused(given: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Gives\.block\(stream, 1024\) gave .*; expected an array of 1024 numbers"):
        Gives(given).factors(stream()).draw()


def test_a_block_may_be_a_list() -> None:
    assert Gives([1.5] * 1024).factors(stream()).draw() == 1.5
