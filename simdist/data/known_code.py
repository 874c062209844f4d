"""What is known of code that is not the user's: which gives the same results for the same arguments, and which draws.

Code of Python and of installed packages is not read. It is either on the list of what depends on its arguments alone, or draws
(random numbers, clocks, whatever gives another value each time), or nothing is known of it.

Taught in lesson 08.
"""

from __future__ import annotations

import io
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES

__all__ = ["drawn", "is_constant", "is_library", "is_library_function", "is_public", "module_of"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONSTANT = _words(
    """
    abc base64 binascii bisect builtins cmath collections dataclasses decimal enum fractions functools hashlib heapq itertools jax
    jaxlib json math ml_dtypes numbers numpy operator re reprlib string struct textwrap time types typing unicodedata zlib
    _operator _functools _collections _struct _bisect _heapq _hashlib _abc _decimal _json
    """
)
"""Packages whose functions depend on their arguments alone."""

NOT_CONSTANT = _words(
    """
    asdict astuple attrgetter breakpoint cache cached_property compile delattr dir eval exec fields fromfile genfromtxt getattr
    globals hasattr id input io_callback jit load loadtxt locals lru_cache memmap methodcaller open pure_callback replace setattr
    vars __import__
    """
)
"""Functions of these packages that read files, remember results, or find what no name in the code says."""

CLOCKS = _words(
    """
    time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time thread_time_ns
    localtime gmtime ctime asctime
    """
)
DRAWS = {"time": CLOCKS, "uuid": frozenset({"uuid1", "uuid4"}), "os": frozenset({"urandom", "getrandom"})}
DRAWS["posix"] = DRAWS["nt"] = DRAWS["os"]
GENERATORS = frozenset({"BitGenerator", "Generator", "Random", "RandomState", "SeedGenerator"})  # classes of whatever package
DATASETS = "simdist.data.pipeline"
ROOTS = tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def module_of(part: object) -> str:
    """The module that a function, a class or an object's class says it is from; empty where it says nothing."""
    name = part.__name__ if isinstance(part, types.ModuleType) else getattr(part, "__module__", None)
    return name if isinstance(name, str) else ""


def is_constant(part: object) -> bool:
    """True for functions and classes of packages that are known to depend on their arguments alone."""
    name = getattr(part, "__name__", "")
    return module_of(part).partition(".")[0] in CONSTANT and name not in NOT_CONSTANT


def is_public(part: object) -> bool:
    """True for what such a package has under the name that it says it has."""
    if not is_code(part) or not is_constant(part):
        return False
    found: object = sys.modules.get(module_of(part))
    for name in str(getattr(part, "__qualname__", "")).split("."):
        found = getattr(found, name, None)
    return found is part


def drawn(part: object) -> str | None:
    """What an object gives that is another each time (in words), or None.

    Example:
        >>> import numpy as np
        >>> drawn(np.random.default_rng(0)), drawn(iter([1])), drawn(abs)
        ('a random generator', 'an iterator', None)
    """
    if any(base.__name__ in GENERATORS and is_library(module_of(base)) for base in type(part).__mro__):
        return "a random generator"
    if isinstance(part, io.IOBase):
        return "an open file"
    if isinstance(part, Iterator):
        return "an iterator"
    if not is_code(part):
        return None
    name, module = getattr(part, "__name__", ""), module_of(part)
    if part is next or name in DRAWS.get(module, ()):
        return f"{module}.{name}"
    levels = module.split(".")
    is_drawing = levels[0] in ("random", "secrets") or ("random" in levels and levels[0] != "jax" and is_library(module))
    return f"{module}.{name}" if is_drawing else None


def is_dataset(part: object) -> bool:
    """True for datasets, which never change, and for their classes."""
    kind: type = part if isinstance(part, type) else type(part)
    return any(module_of(base) == DATASETS for base in kind.__mro__)


def is_code(part: object) -> bool:
    """True for functions and classes, also for those of compiled packages."""
    return isinstance(part, (type, types.FunctionType, types.BuiltinFunctionType)) or (
        callable(part) and is_library(module_of(type(part))) and not isinstance(part, types.ModuleType)
    )


def is_library(module: str) -> bool:
    """True for a module of Python, of simdist or of an installed package, whose code is not read."""
    package = module.partition(".")[0]
    if package in ("simdist", "__main__"):
        return package == "simdist"  # wherever it is: a strategy or a variable reaches thousands of objects
    loaded = sys.modules.get(module)
    if loaded is None or package in sys.stdlib_module_names:
        return True
    file: object = getattr(loaded, "__file__", None)
    return isinstance(file, str) and (is_installed(file) or file.endswith(tuple(EXTENSION_SUFFIXES)))


def is_library_function(fn: types.FunctionType) -> bool:
    """True for a function of Python, of simdist or of an installed package."""
    file = fn.__code__.co_filename
    if str(fn.__globals__.get("__name__", "")).partition(".")[0] == "simdist":
        return not file.startswith("<")  # which a doctest's is, or what a user has entered
    return file.startswith("<frozen") or is_installed(file)


@lru_cache(4096)
def is_installed(file: str) -> bool:
    """True for the paths where Python and packages are."""
    return "site-packages" in file or "dist-packages" in file or os.path.realpath(file).startswith(ROOTS)
