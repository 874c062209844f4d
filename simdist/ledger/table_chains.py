"""Chains: the versions of a table that follow one another in one buffer, as the replay machine needs them.

An update that may write in place (`in_place.py`) makes the next version of a chain. While a scan runs, each chain is one buffer in its
carry, and a branch of the machine always works on the same chains: that of each bundle that it reads is fixed when it is first met.
A stretch in which that does not hold, or in which a version is needed that is gone, is computed call by call.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import accumulate
from typing import NamedTuple

from simdist.ledger.entry import Branch, Entry, Site
from simdist.ledger.in_place import changes_rows, uses_tables
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.program.row_kernels import Port, RowForm, form_with_rows_of, row_form
from simdist.program.values import Aval, BundleType

__all__ = ["Passage", "TableChains", "form_in_scan", "ports_of", "whole_tables"]


class Passage(NamedTuple):
    """What a stretch does to the chains: how many of its entries can be replayed, and of each chain the register before and after these."""

    num_entries: int
    before: dict[int, int]
    after: dict[int, int]


class _Kind(NamedTuple):
    """Of entries of one branch: whether they have tables, fit into a scan, change rows, and which of their reads use tables."""

    has_tables: bool
    fits: bool
    changes: bool
    using: list[int]


def _kind_of(site: Site, files: Sequence[RegisterFile]) -> _Kind:
    tables = {file.avals: file.tables for file in files if file.tables}
    has_tables = any(avals in tables for avals in (*site.reads, *site.writes))
    using = [number for number, avals in enumerate(site.reads) if avals in tables and uses_tables(site, number, tables[avals])]
    return _Kind(has_tables, form_in_scan(site, files) is not None, changes_rows(site), using)


class TableChains:
    """The chains of a ledger's tables.

    Attributes:
        numbers: the chain of each bundle with tables that a branch reads: by branch, and position among its reads.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}
        self._files: list[RegisterFile] = []  # of each chain

    def passage(
        self, entries: Sequence[Entry], branches: Sequence[Branch], files: Sequence[RegisterFile], in_place: Container[int]
    ) -> Passage:
        """How the first entries of a stretch go through the chains, as far as they can be replayed.

        Args:
            entries: of the stretch.
            branches, files: the ledger's.
            in_place: numbers of the entries that may write in place.
        """
        passage = Passage(len(entries), {}, {})
        kinds: dict[int, _Kind] = {}
        chain_of: dict[int, int] = {}  # by register, of the present versions
        for number, (_, code, reads, writes, _, _) in enumerate(entries):
            kind = kinds.get(code)
            if kind is None:
                kind = kinds[code] = _kind_of(branches[code].site, files)
            if not kind.has_tables:
                continue
            if (kind.changes and number not in in_place) or not kind.fits or not self._read(code, kind, reads, files, chain_of, passage):
                return passage._replace(num_entries=number)
            if kind.changes:
                chain = chain_of.pop(reads[0])
                chain_of[writes[0]] = chain
                passage.after[chain] = writes[0]
        return passage

    def _read(
        self,
        code: int,
        kind: _Kind,
        reads: Sequence[int],
        files: Sequence[RegisterFile],
        chain_of: dict[int, int],
        passage: Passage,
    ) -> bool:
        """Note what an entry reads of chains; False if it does not fit."""
        for position in kind.using:
            register = reads[position]
            chain, known = chain_of.get(register), self.numbers.get((code, position))
            if chain is None:
                chain = self._new(files[register >> INDEX_BITS]) if known is None else known
                if chain in passage.before:
                    return False  # another version of it is in the buffer
                passage.before[chain] = passage.after[chain] = register
                chain_of[register] = chain
            if known is None:
                self.numbers[code, position] = chain
            elif known != chain:
                return False
        return True

    def _new(self, file: RegisterFile) -> int:
        self._files.append(file)
        return len(self._files) - 1

    @property
    def tables(self) -> list[tuple[BundleType, tuple[int, ...]]]:
        """Of each chain the type of its bundles, and which of their arrays are tables by now."""
        return [(file.avals, tuple(sorted(file.tables))) for file in self._files]

    @property
    def buffers(self) -> list[tuple[int, int, Aval]]:
        """The buffers of all chains: (chain, position in the bundle, type)."""
        return [(chain, position, avals[position]) for chain, (avals, positions) in enumerate(self.tables) for position in positions]


def form_in_scan(site: Site, files: Sequence[RegisterFile]) -> RowForm | None:
    """How a site works in a scan: by its kernel of rows of the tables that are kept out of the heaps, and of whole arrays; None: it cannot.

    Only of tables that some kernel changes by rows: others are of layers that take longer than a call.
    """
    tables_of = {file.avals: file.tables for file in files if file.tables}
    by_calls = {file.avals for file in files if file.tables and not file.by_rows}
    starts = list(accumulate(map(len, site.reads), initial=0))
    tables = [start + table for avals, start in zip(site.reads, starts, strict=False) for table in tables_of.get(avals, ())]
    form = form_with_rows_of(site.kernel, tables)
    if any(avals in by_calls and whole_tables(site, position, tables_of[avals]) for position, avals in enumerate(site.reads)):
        return None
    outputs = {port.output for port in form.ports}
    for avals, first in zip(site.writes, accumulate(map(len, site.writes), initial=0), strict=False):
        if any(first + table not in outputs for table in tables_of.get(avals, ())):
            return None
    return form


def ports_of(site: Site, position: int) -> list[tuple[Port, int]]:
    """The ports of a site that belong to one of the bundles that it reads, with their positions in it."""
    form = row_form(site.kernel)
    first = list(accumulate(map(len, site.reads), initial=0))[position]
    ports = form.ports if form is not None else ()
    return [(port, port.input - first) for port in ports if first <= port.input < first + len(site.reads[position])]


def whole_tables(site: Site, position: int, tables: frozenset[int]) -> list[tuple[int, int]]:
    """Which inputs of a site's kernel are whole tables of one of the bundles that it reads, and where they are in it."""
    form, first = row_form(site.kernel), list(accumulate(map(len, site.reads), initial=0))[position]
    by_rows = {port.input for port in form.ports} if form is not None else set[int]()
    return [(first + table, table) for table in sorted(tables) if site.kernel.used[first + table] and first + table not in by_rows]
