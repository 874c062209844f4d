"""What a plan of faults is, for those who add methods to it: whatever plans one more fault.

Taught in lesson 01.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from simdist.faults.base import Fault

__all__ = ["AnyFault", "Planner", "Predicate", "Side"]

AnyFault = TypeVar("AnyFault", bound=Fault)
Predicate = Callable[[Any], Any]
Side = str | Sequence[str]


class Planner(ABC):
    """Plans faults."""

    @abstractmethod
    def add(self, fault: AnyFault) -> AnyFault:
        """Plan a fault of any kind, and return it."""
