"""Optional packages: what to install where one is missing.

A part that needs one loads it when it is used, inside ``with needs(...)``, so that the error says how to install it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(part: str, extra: str) -> Iterator[None]:
    """Around imports of packages of an extra: says how to install it where one of them is not there.

    Args:
        part: what the user asked for, as the beginning of a sentence.
        extra: of simdist, as in ``pip install 'simdist[extra]'``.

    Raises:
        ModuleNotFoundError: a package is missing.

    Example:
        >>> with needs("A picture of a trace", "lab"):
        ...     import a_package_that_nobody_has
        Traceback (most recent call last):
        ModuleNotFoundError: A picture of a trace needs the package a_package_that_nobody_has: pip install 'simdist[lab]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "simdist", "simdist_widgets"):
            raise
        raise ModuleNotFoundError(f"{part} needs the package {package}: pip install 'simdist[{extra}]'", name=error.name) from error
