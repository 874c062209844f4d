"""The names that the code of a function uses: of globals, of attributes, of modules that it imports.

Code that stands inside it (lambdas, comprehensions, inner functions) counts as its own.

Taught in lesson 08.
"""

from __future__ import annotations

import dis
import types
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["CodeNames", "names_in"]

GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM", "STORE_ATTR", "DELETE_ATTR"})
ASSIGNED = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
ASSIGNED_CELLS = frozenset({"STORE_DEREF", "DELETE_DEREF"})
REMEMBERED = 4096  # code objects


@dataclass(frozen=True)
class CodeNames:
    """What a code object names.

    Attributes:
        globals: names that are looked up among the globals, or among Python's builtins; sorted.
        attributes: names of attributes and methods, of whatever object.
        imports: modules that an import inside the code names; sorted.
        assigned: variables from outside of it, ``global`` and ``nonlocal``, that the code assigns.
    """

    globals: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[str, ...]
    assigned: frozenset[str]


@lru_cache(REMEMBERED)
def names_in(code: types.CodeType) -> CodeNames:
    """The names that a code object uses, with those of the code inside it.

    Example:
        >>> names = names_in((lambda x: abs(x.real)).__code__)
        >>> names.globals, sorted(names.attributes)
        (('abs',), ['real'])
    """
    found: dict[str, set[str]] = {"globals": set(), "attributes": set(), "imports": set(), "assigned": set()}
    for instruction in dis.get_instructions(code):
        kind = instruction.opname
        if kind in GLOBALS:
            found["globals"].add(instruction.argval)
        elif kind in ATTRIBUTES:
            found["attributes"].add(instruction.argval)
        elif kind == "IMPORT_NAME":
            found["imports"].add(instruction.argval)
        elif kind in ASSIGNED or (kind in ASSIGNED_CELLS and instruction.argval in code.co_freevars):
            found["assigned"].add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_in(constant)
            found["globals"].update(inner.globals)
            found["attributes"].update(inner.attributes)
            found["imports"].update(inner.imports)
            found["assigned"].update(inner.assigned.difference(code.co_cellvars))
    names = (tuple(sorted(found["globals"])), frozenset(found["attributes"]), tuple(sorted(found["imports"])), frozenset(found["assigned"]))
    return CodeNames(*names)
