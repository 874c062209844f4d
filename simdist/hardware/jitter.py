"""Jitter: the time of a program, times a random factor.

A distribution is frozen data on a `Device`; the numbers come from a numpy generator that the caller derives from
(seed, task, incarnation, purpose), so one task's draws never move another's. `Factors` draws 1,024 of them at a time:
the k-th factor of a stream is the same however many are drawn together.

A duration with jitter is rounded to whole nanoseconds, because the logarithm and the exponential of two machines may
differ in the last bit, and such a bit must not decide which of two events comes first. Without jitter a duration stays
as it is, so that closed forms hold exactly.

Not modelled: jitter that lasts (a slow machine stays slow: that is a fault, a straggler), and jitter of the network.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.hardware.figures import keep_figures

__all__ = ["NO_JITTER", "Exponential", "Factors", "Jitter", "LogNormal", "NoJitter", "TwoPoint", "Uniform", "quantised"]

BLOCK = 1024
NANOSECONDS = 1e9


class Jitter(ABC):
    """The distribution of a factor on a program's time.

    A class of your own draws from the given stream alone. Each stream gets a copy of the distribution, as it was given to the device: what
    it counts is of that stream, and begins anew when a run is rewound.

    Example:
        >>> stream = np.random.Generator(np.random.PCG64(0))
        >>> 0.9 <= Uniform(0.9, 1.1).sample(stream) <= 1.1
        True
    """

    __slots__ = ()

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expected factor."""

    @abstractmethod
    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        """So many factors, the same as `size` calls of `sample`."""

    def sample(self, stream: np.random.Generator) -> float:
        """One factor."""
        return float(self.block(stream, 1)[0])

    def factors(self, stream: np.random.Generator) -> Factors:
        """The factors of one stream, one after the other, quickly."""
        return Factors(copy.deepcopy(self), stream)


@dataclass(frozen=True)
class NoJitter(Jitter):
    """Every program takes the time that it should; draws nothing from the stream.

    Example:
        >>> NoJitter().sample(np.random.Generator(np.random.PCG64(0)))
        1.0
    """

    @property
    def mean(self) -> float:
        return 1.0

    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        return np.ones(size)


NO_JITTER = NoJitter()


@dataclass(frozen=True)
class Uniform(Jitter):
    """Any factor between two bounds, all equally likely.

    Args:
        low: the smallest factor, 0 or more.
        high: the largest.

    Raises:
        TypeError: if a bound is no number.
        InvalidArgumentError: unless 0 <= low <= high < infinity and 0 < high.

    Example:
        >>> Uniform(0.9, 1.3).mean
        1.1
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_range(self, self.low, self.high)

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        return stream.uniform(self.low, self.high, size)


@dataclass(frozen=True)
class LogNormal(Jitter):
    """A skewed factor of mean 1: ``exp(sigma * Z - sigma ** 2 / 2)`` with a standard normal Z.

    Args:
        sigma: standard deviation of the factor's logarithm; for small values nearly that of the factor itself.

    Raises:
        TypeError: if it is no number.
        InvalidArgumentError: if it is negative or infinite.

    Example:
        >>> LogNormal(0.1).mean
        1.0
    """

    sigma: float

    def __post_init__(self) -> None:
        _check_finite(self, "sigma", self.sigma, may_be_zero=True)

    @property
    def mean(self) -> float:
        return 1.0

    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        return stream.lognormal(-(self.sigma**2) / 2, self.sigma, size)


@dataclass(frozen=True)
class Exponential(Jitter):
    """A factor without memory: the slowest of n workers takes ``mean * (1 + 1/2 + ... + 1/n)`` on average.

    Args:
        mean: the expected factor; default 1.0.

    Raises:
        TypeError: if it is no number.
        InvalidArgumentError: if it is not positive, or infinite.

    Example:
        >>> Exponential().mean
        1.0
    """

    mean: float = 1.0  # pyright: ignore[reportIncompatibleMethodOverride]  # a field is as good as a property

    def __post_init__(self) -> None:
        _check_finite(self, "mean", self.mean)

    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        return stream.exponential(self.mean, size)


@dataclass(frozen=True)
class TwoPoint(Jitter):
    """Usually one factor, now and then another: rare stragglers (Dean and Barroso, The Tail at Scale, 2013).

    Args:
        low: the usual factor, 0 or more.
        high: the rare one, not smaller.
        probability: how often it is `high`, from 0 to 1.

    Raises:
        TypeError: if an argument is no number.
        InvalidArgumentError: unless 0 <= low <= high < infinity, 0 < high and 0 <= probability <= 1.

    Example:
        >>> TwoPoint(1.0, 11.0, probability=0.01).mean
        1.1
    """

    low: float
    high: float
    probability: float

    def __post_init__(self) -> None:
        _check_range(self, self.low, self.high)
        keep_figures(self, "probability", may_be_zero=True)
        if self.probability > 1:
            raise InvalidArgumentError(f"TwoPoint: probability must be from 0 to 1; got {self.probability!r}.")

    @property
    def mean(self) -> float:
        return self.low + self.probability * (self.high - self.low)

    def block(self, stream: np.random.Generator, size: int) -> np.ndarray:
        return np.where(stream.random(size) < self.probability, float(self.high), float(self.low))


class Factors:
    """The factors of one stream, drawn in blocks.

    Args:
        jitter: their distribution.
        stream: the random numbers; no other code may draw from it.

    Example:
        >>> factors = TwoPoint(2.0, 2.0, probability=0.5).factors(np.random.Generator(np.random.PCG64(0)))
        >>> factors.apply(0.25)
        0.5
    """

    __slots__ = ("_drawn", "_left_alone", "_next", "jitter", "stream")

    def __init__(self, jitter: Jitter, stream: np.random.Generator) -> None:
        self.jitter = jitter
        self.stream = stream
        self._left_alone = isinstance(jitter, NoJitter)
        self._drawn: list[float] = []
        self._next = 0

    def draw(self) -> float:
        """The next factor."""
        if self._next == len(self._drawn):
            self._drawn, self._next = self._block(), 0
        self._next += 1
        return self._drawn[self._next - 1]

    def _block(self) -> list[float]:
        found = np.asarray(self.jitter.block(self.stream, BLOCK))
        if found.shape != (BLOCK,) or found.dtype.kind not in "fiu":
            raise InvalidArgumentError(
                f"{type(self.jitter).__name__}.block(stream, {BLOCK}) gave {found.dtype}{list(found.shape)}; expected an array of "
                f"{BLOCK} numbers, one factor each."
            )
        return found.tolist()

    def apply(self, seconds: float) -> float:
        """A duration times the next factor, in whole nanoseconds; without jitter the duration itself.

        Args:
            seconds: what the program would take on average or without jitter.

        Returns:
            Seconds.
        """
        if self._left_alone:
            return seconds
        return quantised(seconds * self.draw())


def quantised(seconds: float) -> float:
    """A duration in whole nanoseconds, so that the last bit of a logarithm cannot move an event.

    Args:
        seconds: a duration, 0 or more; an infinite one stays so.

    Returns:
        The float that is nearest to the whole number of nanoseconds.

    Example:
        >>> quantised(0.1234567891234)
        0.123456789
    """
    return round(seconds * NANOSECONDS) / NANOSECONDS if math.isfinite(seconds) else seconds


def _check_finite(owner: Jitter, name: str, value: float, may_be_zero: bool = False) -> None:
    kind = type(owner).__name__
    keep_figures(owner, name, may_be_zero=may_be_zero)
    if math.isinf(getattr(owner, name)):
        raise InvalidArgumentError(f"{kind}: {name} must be finite; got {value!r}.")


def _check_range(owner: Jitter, low: float, high: float) -> None:
    _check_finite(owner, "low", low, may_be_zero=True)
    _check_finite(owner, "high", high)
    if low > high:
        raise InvalidArgumentError(f"{type(owner).__name__}: low must be at most high; got low={low!r} and high={high!r}.")
