"""Steps that are methods: each object has its own, kept with the object.

The object holds its steps, because a strategy keeps of a step only what it has made of it, and lets that go with the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, cast

from simdist.caches import BoundedCache

__all__ = ["ObjectSteps"]

Step = TypeVar("Step")
ATTRIBUTE = "_simdist_steps"
KEPT_OBJECTS = 256  # of a class whose objects have no dictionary; classes, of a step that is a class method


class _Held:
    """What an object holds: its steps, by those of its classes. A copy of the object has none."""

    def __init__(self, holder: object = None) -> None:
        self.holder = holder
        self.steps: dict[object, object] = {}

    def __reduce__(self) -> tuple[type[_Held], tuple[()]]:
        return _Held, ()


class ObjectSteps(Generic[Step]):
    """The steps that one function in a class is for its objects."""

    def __init__(self) -> None:
        self._kept: BoundedCache[int, Step] = BoundedCache(KEPT_OBJECTS)

    def get(self, instance: object, make: Callable[[], Step]) -> Step:
        """The step of an object, which holds it from now on."""
        attributes: object = getattr(instance, "__dict__", None)
        if not isinstance(attributes, dict):  # the object has slots; or it is a class, which shows its attributes read-only
            return self._kept.get(id(instance), make)  # the step holds the object, so the identity is not given to another one
        own = cast("dict[str, _Held]", attributes)
        held = own.get(ATTRIBUTE)
        if held is None or held.holder is not instance:
            held = own[ATTRIBUTE] = _Held(instance)
        if self not in held.steps:
            held.steps[self] = make()
        return cast(Step, held.steps[self])
