"""What a process keeps so as not to make it again: how much of it, and how to let it go.

Compiled kernels, schedules and the like are kept from one cluster to the next, because a notebook builds the same model again and
again. Each cache has a name and a size; when it is full, what was used least recently goes.

Invariants:

- What is dropped can be made again, and is the same then: dropping costs time, and changes no number and no trace.
- Keys are objects and values, never an ``id()``: another object may get the number of one that is gone.
- What belongs to a cluster or a strategy is kept there, in a `BoundedCache` of its own, and goes with it.

JAX keeps code of its own for every operation outside of steps (a new shape costs it a megabyte or two); ``jax.clear_caches()``
drops that.

What may live in this file: keeping and dropping. Not: what is kept, or how it is made. Standard library only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

__all__ = ["BoundedCache", "CacheInfo", "OfLiving", "bounded", "clear", "of_each", "shared", "table"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")


class BoundedCache(Generic[K, V]):
    """A mapping that keeps so many entries; beyond that, the one that was used least recently goes.

    Args:
        size: how many entries are kept.
        finds_living: whether a value that was dropped is still found for as long as another object holds it.

    Example:
        >>> squares = BoundedCache(size=2)
        >>> [squares.get(n, lambda: n * n) for n in (1, 2, 1, 3)]
        [1, 4, 1, 9]
        >>> list(squares)
        [1, 3]
    """

    def __init__(self, size: int, finds_living: bool = False) -> None:
        self.size = size
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._living: WeakValueDictionary[K, Any] | None = WeakValueDictionary() if finds_living else None

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key; made now where there is none. Nothing is kept where making it fails."""
        kept = self._kept
        try:
            kept.move_to_end(key)  # fails where it is not: one search fewer than to ask before
            return kept[key]
        except KeyError:
            value: V | None = None if self._living is None else self._living.get(key)
        if value is None:
            value = make()
            if self._living is not None:
                self._living[key] = value
        kept[key] = value
        if len(kept) > self.size:
            kept.popitem(last=False)
        return value

    def drop(self, key: K) -> None:
        """Let an entry go, if there is one."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Let all entries go."""
        self._kept.clear()

    def values(self) -> list[V]:
        """The values of all entries."""
        return list(self._kept.values())

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Any:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


class OfLiving(Generic[K, V]):
    """What is kept of objects while others hold them; of so many at most, as in a `BoundedCache`.

    A value that refers to its object keeps it alive, until too many others have come.

    Args:
        size: of how many objects.

    Example:
        >>> class Step: ...
        >>> step, programs = Step(), OfLiving(size=2)
        >>> programs.get(step, lambda: "program"), len(programs)
        ('program', 1)
        >>> del step
        >>> len(programs)
        0
    """

    def __init__(self, size: int) -> None:
        self._kept: BoundedCache[ref[K], V] = BoundedCache(size)
        kept = ref(self._kept)

        def drop(gone: ref[K]) -> None:
            if (cache := kept()) is not None:
                cache.drop(gone)

        self._drop = drop

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What is kept of an object; made now where there is none."""
        found = ref(key)
        return self._kept.get(found if found in self._kept else ref(key, self._drop), make)

    def drop(self, key: K) -> None:
        """Let go what is kept of an object, if there is something."""
        self._kept.drop(ref(key))

    def clear(self) -> None:
        """Let all go."""
        self._kept.clear()

    def values(self) -> list[V]:
        """All that is kept."""
        return self._kept.values()

    def __len__(self) -> int:
        return len(self._kept)


# -- those of the process ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CacheInfo:
    """What one cache of the process holds; `size` is None where entries live as long as the objects that they belong to."""

    name: str
    entries: int
    size: int | None

    def __str__(self) -> str:
        return f"{self.name:<32} {self.entries:>6} of {'what lives' if self.size is None else f'at most {self.size}'}"


class _Clearable(Protocol):
    def clear(self) -> None: ...
    def __len__(self) -> int: ...


_registered: dict[str, tuple[_Clearable, int | None]] = {}


def shared(name: str, size: int, finds_living: bool = False) -> BoundedCache[Any, Any]:
    """A cache that the whole process shares, with a line in `table`.

    Args:
        name: what is in it, for people.
        size, finds_living: as for `BoundedCache`.
    """
    cache: BoundedCache[Any, Any] = BoundedCache(size, finds_living)
    _register(name, cache, size)
    return cache


def of_each(name: str) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Keep what a function of one object returns for as long as the object lives; with a line in `table`."""

    def decorate(function: Callable[[K], V]) -> Callable[[K], V]:
        known: WeakKeyDictionary[K, V] = WeakKeyDictionary()
        _register(name, known, None)

        def kept(key: K) -> V:
            if key not in known:
                known[key] = function(key)
            return known[key]

        kept.__doc__, kept.__name__, kept.__wrapped__ = function.__doc__, function.__name__, function  # pyright: ignore
        return kept

    return decorate


def bounded(name: str, size: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Keep what a function returned for its last arguments (`functools.lru_cache`), with a line in `table`."""

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        kept = lru_cache(maxsize=size)(function)
        _register(name, _OfFunction(kept), size)
        return kept  # pyright: ignore[reportReturnType]

    return decorate


def table() -> list[CacheInfo]:
    """What each cache of the process holds now, and how much it may hold: ``print(*sd.caches.table(), sep="\n")``."""
    return [CacheInfo(name, len(cache), size) for name, (cache, size) in sorted(_registered.items())]


def clear() -> None:
    """Let go of everything that the process keeps. What is in use stays; what is needed again is made again, with the same bits.

    Example:
        >>> import simdist as sd
        >>> sd.caches.clear()
        >>> sum(info.entries for info in sd.caches.table())
        0
    """
    for cache, _ in _registered.values():
        cache.clear()


class _OfFunction:
    """The cache of a function under `functools.lru_cache`."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def clear(self) -> None:
        self.function.cache_clear()

    def __len__(self) -> int:
        return self.function.cache_info().currsize


def _register(name: str, cache: _Clearable, size: int | None) -> None:
    if name in _registered:
        raise ValueError(f"There is a cache {name!r} already; give this one a name of its own.")
    _registered[name] = cache, size
