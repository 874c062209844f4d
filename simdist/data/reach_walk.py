"""One walk through what a function reaches, which gives each object a token: equal tokens, equal objects.

Taught in lesson 08.
"""

from __future__ import annotations

import builtins
import datetime
import re
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from enum import Enum
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from simdist.data.attributes import CONTAINERS, dict_of, implied_members, slots_of
from simdist.data.code_names import names_in
from simdist.data.known_code import drawn, is_constant, is_dataset, is_library, is_library_function, is_public, module_of
from simdist.data.putting_back import MISSING, put_code, put_slots
from simdist.data.row_wise import RowWise
from simdist.data.tokens import Tokens
from simdist.data.watching import Same

__all__ = ["Walk"]

MOST_OPAQUE_LEVELS = 3  # of objects of which nothing is known but their attributes


class _Pair(NamedTuple):
    first: int


C_FUNCTIONS = (
    *(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
    *(types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, np.ufunc),
)
NUMBERS = (int, float, str, bytes, complex)
ALL_NAMES = frozenset({"__dict__", "__getattribute__", "__getstate__", "format", "format_map"})  # code with these may read any attribute
CLOCK_METHODS = frozenset({"now", "today", "utcnow"})  # of dates
# What these put around a function has no state but what it closes over.
WRAPPING = frozenset({"collections", "dataclasses", "functools", "reprlib"})
FIELD = type(vars(_Pair)["first"])


class Walk(Tokens):
    """A walk that knows the names of attributes that code uses."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self._opaque_level = 0

    def token_by_rule(self, part: object) -> Hashable:
        """The token of an object that was not seen before, and is not a plain value."""
        if isinstance(part, RowWise):
            return "row-wise", part.state
        generator = drawn(part)
        if generator is not None:
            self.generator = self.generator or generator
            return Same(part) if self.watches.generator(part) else self.unsure()
        if is_public(part) or is_dataset(part):
            return Same(part)
        for kinds, rule in RULES:
            if isinstance(part, kinds):
                return rule(self, part) if rule in OF_NAMES else self.of_object(rule, part)
        if type(part) is object or (isinstance(part, jax.Array) and not isinstance(part, Tracer)):
            return Same(part)
        return self.of_object(Walk.instance, part)

    def of_object(self, rule: Rule, part: object) -> Hashable:
        """The token of a thing whose parts belong to it."""
        before, self.watches.of_objects = self.watches.of_objects, True
        try:
            return rule(self, part)
        finally:
            self.watches.of_objects = before

    # -- code -----------------------------------------------------------------------------------------------------

    def function(self, fn: types.FunctionType) -> Hashable:
        if is_library_function(fn):
            return self.library_function(fn)
        names = names_in(fn.__code__)
        self.found_names |= names.attributes
        if names.assigned:
            self.generator = self.generator or f"{min(names.assigned)!r}, which it assigns"
        code = self.watches.contents(lambda: [fn.__code__, fn.__defaults__, fn.__kwdefaults__], partial(put_code, fn))
        cells = [self.token(self.watches.cell(cell)) for cell in fn.__closure__ or ()]
        imported = [self.imported(name) for name in names.imports]
        named = [self.named(fn, name) for name in names.globals]
        attributes = self.members(fn.__dict__) if fn.__dict__ else ()
        return fn.__code__, self.token(code[1]), self.token(code[2]), *cells, *imported, *named, attributes

    def library_function(self, fn: types.FunctionType) -> Hashable:
        """A function that a package made: a wrapper, say, which may hold a function of the user."""
        cells = [self.token(self.watches.cell(cell)) for cell in fn.__closure__ or ()]
        is_known = fn.__globals__.get("__name__") in WRAPPING
        return (fn.__code__, self.token(fn.__defaults__), *cells) if is_known else self.unsure()

    def named(self, fn: types.FunctionType, name: str) -> Hashable:
        """What a name in the code of a function stands for: a global, or something that Python brings."""
        value = fn.__globals__.get(name, MISSING)
        self.watches.bind(fn.__globals__, name, value)
        if value is MISSING:
            value = vars(builtins).get(name, MISSING)
        if value is type:
            self.found_names.add("__class__")
        return name, self.token(value)

    def imported(self, name: str) -> Hashable:
        """The modules that an import inside the code stands for."""
        modules = [sys.modules.get(".".join(name.split(".")[: end + 1])) for end in range(name.count(".") + 1)]
        return tuple(self.unsure() if module is None else self.token(module) for module in modules)

    def c_function(self, fn: Any) -> Hashable:
        if fn.__name__ in CLOCK_METHODS:
            self.generator = self.generator or fn.__name__
        if hasattr(fn, "__objclass__"):
            return "method", fn.__name__, self.token(fn.__objclass__)
        holder: object = getattr(fn, "__self__", None)
        if holder is None or isinstance(holder, types.ModuleType):
            is_known = getattr(np, fn.__name__, None) is fn if isinstance(fn, np.ufunc) else is_constant(fn)
            return Same(fn) if is_known else self.unsure()
        return "bound", fn.__name__, self.token(holder)

    def method(self, method: types.MethodType) -> Hashable:
        return "method", self.token(method.__func__), self.token(method.__self__)

    def module(self, module: types.ModuleType) -> Hashable:
        self.asked_for_names = True
        parts: list[Hashable] = [module.__name__]
        for name in sorted(self.names & vars(module).keys() - {"__dict__"}):
            value = vars(module)[name]
            is_known = is_constant(module) and is_constant(value) and not isinstance(value, types.ModuleType) and not drawn(value)
            if not is_known:
                self.watches.bind(vars(module), name, value)
            parts.append((name, Same(value) if is_known else self.token(value)))
        return tuple(parts)

    # -- values ---------------------------------------------------------------------------------------------------

    def container(self, part: Any) -> Hashable:
        if type(part) not in (*CONTAINERS, OrderedDict, defaultdict):
            return self.instance(part)
        return type(part), self.token(part.default_factory) if type(part) is defaultdict else None, self.contents(part)

    def array(self, array: Any) -> Hashable:
        if type(array) is not np.ndarray:
            return self.instance(array)
        if array.dtype.hasobject:
            return ("objects", array.shape, self.contents(array)) if array.dtype.kind == "O" else self.unsure()
        self._bytes -= array.nbytes
        return ("array", *self.watches.array(array)) if self._bytes >= 0 else self.unsure()

    def partial(self, part: partial[object]) -> Hashable:
        return "partial", self.token(part.func), self.token(part.args), self.token(part.keywords), self.members(vars(part))

    def wrapper(self, part: Any) -> Hashable:
        """A property, a static method and such like: what makes an attribute of a function."""
        name = next(name for name in ("fget", "__func__", "func") if hasattr(part, name))
        return type(part), self.token(getattr(part, name))

    # -- objects with attributes ----------------------------------------------------------------------------------

    def type(self, part: type) -> Hashable:
        self.asked_for_names = True
        if issubclass(part, datetime.date) and CLOCK_METHODS & self.names:
            self.generator = self.generator or f"{part.__name__}.now"
        if is_library(module_of(part)):
            return Same(part) if is_constant(part) or module_of(part) == "datetime" else self.unsure()
        return Same(part), self.class_members(part, is_called=True)

    def class_members(self, part: type, is_called: bool) -> Hashable:
        """What objects of a class have from it."""
        kind = None if type(part) is type else self.token(type(part))
        implied = [(vars(base), implied_members(vars(base), is_called)) for base in part.__mro__ if not is_library(module_of(base))]
        bases = tuple(self.token(base) for base in part.__mro__ if is_library(module_of(base)))
        return kind, *(self.members(found, names) for found, names in implied), bases

    def class_of(self, part: object) -> Hashable:
        """The class of an object, of which no new object is made."""
        kind = type(part)
        if "__class__" in self.names:
            return self.token(kind)
        return Same(kind), self.seen(kind, (id(kind), "class"), lambda kind: self.class_members(kind, is_called=False))

    def instance(self, part: object) -> Hashable:
        if is_library(module_of(type(part))):
            return self.opaque(part)
        if isinstance(part, (np.ndarray, np.generic, type, types.ModuleType)):
            return self.unsure()
        inner = number_of(part) if isinstance(part, NUMBERS) else self.contents(part) if isinstance(part, CONTAINERS) else None
        slots = slots_of(part)
        if slots:
            self.watches.contents(lambda: list(slots_of(part).values()), partial(put_slots, part, list(slots)))
        count_all = bool(self.names & ALL_NAMES) or isinstance(part, Enum)
        return self.class_of(part), inner, self.members(dict_of(part), count_all=count_all), self.members(slots, count_all=count_all)

    def opaque(self, part: object) -> Hashable:
        """An object of a package: its attributes may hold what draws; whether it is as it was, nobody knows."""
        if self._opaque_level < MOST_OPAQUE_LEVELS:
            self._opaque_level += 1
            for value in list(dict_of(part).values()):
                self.token(value)
            self._opaque_level -= 1
        return self.unsure()


def number_of(part: Any) -> Hashable:
    """The value of a number or a text, whatever its class says about it."""
    base: Any = next(kind for kind in NUMBERS if isinstance(part, kind))
    return base, base.__repr__(part)


Rule = Callable[[Walk, Any], Hashable]
RULES: tuple[tuple[Any, Rule], ...] = (
    (types.FunctionType, Walk.function),
    (types.MethodType, Walk.method),
    (types.ModuleType, Walk.module),
    (C_FUNCTIONS, Walk.c_function),
    (type, Walk.type),
    (np.ndarray, Walk.array),
    (np.generic, Walk.number),
    (CONTAINERS, Walk.container),
    (np.dtype, Walk.dtype),
    (re.Pattern, Walk.pattern),
    (partial, Walk.partial),
    (FIELD, Walk.constant),
    ((property, staticmethod, classmethod, cached_property), Walk.wrapper),
)
OF_NAMES = frozenset({Walk.function, Walk.method, Walk.c_function, Walk.array, Walk.container, Walk.partial})
"""What these reach has a name in the code that reaches it, or a place in a container that has one."""
