"""Tables in the ledger: one buffer, changed in place; a version that is still needed is kept; a scan copies no table."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest

from simdist.ledger import ledger as ledger_module
from simdist.ledger import plans
from simdist.ledger.entry import Site
from simdist.ledger.in_place import donating
from simdist.ledger.ledger import Ledger
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.row_kernels import Port, row_kernel_of
from simdist.program.values import Aval, Bundle

ROWS, WIDTH, IDS = 5_000, 3, 4
TABLE, COUNT = Aval((ROWS, WIDTH), "float32"), Aval((), "int32")
GROUP = (TABLE, COUNT)
SOME_ROWS, NUMBERS = Aval((IDS, WIDTH), "float32"), Aval((IDS,), "int32")


def gather() -> Kernel:
    """Takes a group and row numbers; gives the rows."""
    return row_kernel_of("gather", lambda rows, count, ids: [rows], [*GROUP, NUMBERS], [Port(0, 2, 0, ROWS)])


def update() -> Kernel:
    """Takes a group, rows and row numbers; subtracts the rows, and counts."""
    ports = [Port(0, 3, 0, ROWS, 0)]
    return row_kernel_of("update", lambda rows, count, given, ids: [rows - given, count + 1], [*GROUP, SOME_ROWS, NUMBERS], ports)


def halves() -> Kernel:
    return kernel_of("halves", lambda rows: [rows / 2], [SOME_ROWS])


class Table:
    """A group with a table, whose rows are read and changed."""

    def __init__(self, numerics: str) -> None:
        self.ledger = Ledger(numerics)
        self.start = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
        self.bundle = Bundle.of([jax.numpy.asarray(self.start), np.array(0, np.int32)])
        self.expected = self.start.copy()
        self.gather = self.ledger.site(gather(), [GROUP], [(SOME_ROWS,)])
        self.halves = self.ledger.site(halves(), [(SOME_ROWS,)], [(SOME_ROWS,)])
        self.update = self.ledger.site(update(), [GROUP, (SOME_ROWS,)], [GROUP])
        self.rng = np.random.default_rng(0)

    def ids(self) -> Any:
        unique = np.sort(self.rng.choice(ROWS, IDS, replace=False)).astype(np.int32)
        unique[-1] = ROWS  # three rows, and one that is none
        return unique

    def step(self) -> Bundle:
        """Read rows, and subtract half of them; what was read."""
        ids = self.ids()
        (rows,) = self.ledger.call(self.gather, [self.bundle], None, (ids,))
        (half,) = self.ledger.call(self.halves, [rows])
        (self.bundle,) = self.ledger.call(self.update, [self.bundle, half], None, (ids,))
        self.expected[ids[:-1]] /= 2
        return rows

    @property
    def present(self) -> Any:
        return self.ledger.arrays(self.bundle)[0]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in [(ledger_module, "TABLE_BYTES", 1), (plans, "TRIAL", 4), (plans, "REPLAY_FROM", 10)]:
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("numerics", ["eager", "loop", "replay", "deferred", "vmap"])
def test_rows_that_are_changed_are_those_of_numpy(numerics: str) -> None:
    table = Table(numerics)
    for _ in range(30):
        table.step()
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()
    table.step()
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()
    assert table.ledger.arrays(table.bundle)[1] == 31


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_what_was_given_at_first_is_left_alone(numerics: str) -> None:
    table = Table(numerics)
    given = table.bundle.arrays
    assert given is not None
    for _ in range(20):
        table.step()
    table.ledger.flush()
    assert np.asarray(given[0]).tobytes() == table.start.tobytes()


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_a_version_that_a_bundle_holds_keeps_its_numbers(numerics: str) -> None:
    table = Table(numerics)
    for _ in range(10):
        table.step()
    held, expected = table.bundle, table.expected.copy()
    for _ in range(10):
        table.step()
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()
    assert np.asarray(table.ledger.arrays(held)[0]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_a_table_that_was_looked_at_does_not_change_afterwards(numerics: str) -> None:
    table = Table(numerics)
    table.step()
    seen, expected = table.present, table.expected.copy()
    for _ in range(20):
        table.step()
    table.ledger.flush()
    assert np.asarray(seen).tobytes() == expected.tobytes()


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_one_buffer_is_left_when_all_is_computed(numerics: str) -> None:
    table = Table(numerics)
    for _ in range(40):
        table.step()
    table.bundle.arrays = None
    table.ledger.flush()
    table.step()
    table.ledger.flush()
    files = [file for file in table.ledger.files.values() if file.tables]
    assert [len({*file.loose, *file.in_buffers}) for file in files] == [1]


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_rows_that_were_read_earlier_are_those_of_then(numerics: str) -> None:
    table = Table(numerics)
    reads = [table.step() for _ in range(25)]
    again = Table("eager")
    expected = [again.step() for _ in range(25)]
    # The last first: what the others need must be computed before the table changes.
    for found, wanted in zip(reads[::-1], expected[::-1], strict=True):
        assert np.asarray(table.ledger.arrays(found)[0]).tobytes() == np.asarray(again.ledger.arrays(wanted)[0]).tobytes()


@pytest.mark.parametrize("in_the_heap", [{0}, {0, 1}], ids=["one", "both"])
def test_tables_may_be_so_small_that_they_stay_in_the_heap(monkeypatch: pytest.MonkeyPatch, in_the_heap: set[int]) -> None:
    """As many rows are changed as the small table has, at first all of them, in order."""
    small, ports = Aval((IDS, WIDTH), "float32"), [Port(0, 3, 0, IDS, 0), Port(1, 3, 0, ROWS, 1)]
    monkeypatch.setattr(ledger_module, "TABLE_BYTES", small.size_bytes + 1 if in_the_heap == {0} else 2 * TABLE.size_bytes)
    update = row_kernel_of("both", lambda one, other, given, ids: [one + given, other - given], [small, TABLE, SOME_ROWS, NUMBERS], ports)
    ledger, rng = Ledger("replay"), np.random.default_rng(0)
    expected = [np.zeros(aval.shape, np.float32) for aval in (small, TABLE)]
    bundle = Bundle.of([jax.numpy.asarray(array) for array in expected])
    site = ledger.site(update, [bundle.avals], [bundle.avals])
    for step in range(30):
        ids = np.arange(IDS) if step < 20 else np.sort(rng.choice(3 * IDS, IDS, replace=False))
        given = rng.standard_normal(SOME_ROWS.shape).astype(np.float32)
        (bundle,) = ledger.call(site, [bundle], None, (given, ids.astype(np.int32)))
        expected[0][ids[ids < IDS]] += given[ids < IDS]
        expected[1][ids] -= given
    assert [np.asarray(array).tobytes() for array in ledger.arrays(bundle)] == [array.tobytes() for array in expected]
    assert ledger.files[bundle.avals].tables == {0, 1} - in_the_heap
    assert not ledger.plans.refuted


# -- kernels that read whole tables, and row numbers that entries make ---------------------------------------------------


def forward(count: int) -> Kernel:
    """Takes a group and row numbers [count]; gives these, ascending, and half of their rows."""

    def run(rows: Any, count: Any, given: Any) -> list[Any]:
        ids = jax.numpy.sort(given)
        return [ids, rows[ids] / 2]

    return kernel_of("forward", run, [*GROUP, Aval((count,), "int32")])


def update_by_pair(count: int) -> Kernel:
    """Takes a group, row numbers and rows; subtracts the rows, and counts."""
    ports = [Port(0, 2, 0, ROWS, 0)]
    avals = [*GROUP, *_pair(count)]
    return row_kernel_of("update", lambda rows, count, ids, given: [rows - given, count + 1], avals, ports)


def _pair(count: int) -> tuple[Aval, Aval]:
    return Aval((count,), "int32"), Aval((count, WIDTH), "float32")


class WholeTable(Table):
    """A group whose table is read as it is, and changed in few rows and in many by turns."""

    def __init__(self, numerics: str) -> None:
        super().__init__(numerics)
        site, counts = self.ledger.site, (IDS, 3 * IDS)
        self.sites = [(site(forward(n), [GROUP], [_pair(n)]), site(update_by_pair(n), [GROUP, _pair(n)], [GROUP])) for n in counts]

    def step(self) -> Bundle:
        read, change = self.sites.pop(0)
        self.sites.append((read, change))
        given = self.rng.choice(ROWS - 1, read.fed[0].shape[0], replace=False).astype(np.int32) + 1
        given[:2] = 0, ROWS  # the first row, and one that is none
        (pair,) = self.ledger.call(read, [self.bundle], None, (given,))
        (self.bundle,) = self.ledger.call(change, [self.bundle, pair])
        self.expected[given[given < ROWS]] /= 2
        return pair


@pytest.mark.parametrize("numerics", ["eager", "loop", "replay", "deferred", "vmap"])
def test_rows_are_those_of_numpy_where_a_kernel_reads_the_table_and_makes_the_numbers(numerics: str) -> None:
    table = WholeTable(numerics)
    for _ in range(30):
        table.step()
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()
    table.step()
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()
    assert not table.ledger.plans.refuted


def test_a_long_run_of_whole_reads_is_one_scan() -> None:
    table = WholeTable("replay")
    for _ in range(60):
        table.step()
    lengths = scanned(table)
    table.ledger.flush()
    assert max(lengths) > 100  # of 120 entries, those that are tried come first


def scanned(table: Table) -> list[int]:
    """Gets the number of entries of each scan from now on."""
    lengths: list[int] = []
    run = table.ledger.plans.machine.run

    def counted(entries: Any, *rest: Any) -> Any:
        lengths.append(len(entries))
        return run(entries, *rest)

    table.ledger.plans.machine.run = counted  # type: ignore[method-assign]
    return lengths


def copies_of_tables(program: str) -> list[str]:
    """The lines of a compiled program that copy something of the shape of the table."""
    return [line.strip() for line in program.splitlines() if re.search(rf"= f32\[{ROWS},{WIDTH}\]\S* (copy|select)\(", line)]


def replayed(monkeypatch: pytest.MonkeyPatch, kind: type[Table]) -> str:
    """The program of the machine that replays steps with a table, as XLA has compiled it."""
    programs: list[str] = []
    table = kind("replay")
    machine = table.ledger.plans.machine
    find = machine._program  # pyright: ignore[reportPrivateUsage]

    def found(*args: Any) -> Any:
        scan, layout = find(*args)

        def run(*given: Any) -> Any:
            programs.append(scan.lower(*given).compile().as_text())  # type: ignore[attr-defined]
            return scan(*given)

        return run, layout

    monkeypatch.setattr(machine, "_program", found)
    for _ in range(20):
        table.step()
    table.ledger.flush()
    return programs[-1]


@pytest.mark.parametrize("kind", [Table, WholeTable])
def test_a_scan_copies_no_table(monkeypatch: pytest.MonkeyPatch, kind: type[Table]) -> None:
    program = replayed(monkeypatch, kind)
    assert f"f32[{ROWS},{WIDTH}]" in program
    assert not copies_of_tables(program)


def test_a_scan_may_come_to_a_sort_so_that_it_is_not_made_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert " sort(" in replayed(monkeypatch, Table)


def test_a_scan_is_compiled_anew_where_a_table_is_kept_out_of_the_heaps_from_now_on() -> None:
    """A step that changes rows is linked; what is computed before its first call is that of the steps before it."""
    ledger, count = Ledger("replay"), Bundle.of([np.array(0, np.int32)])
    add = ledger.site(kernel_of("add", lambda count, rows, more: [count + more], [COUNT, *GROUP]), [(COUNT,), GROUP], [(COUNT,)])
    for more in (5, 9):
        group = Bundle.of([jax.numpy.zeros(TABLE.shape), np.array(more, np.int32)])
        for _ in range(20):
            (count,) = ledger.call(add, [count, group])
        assert int(ledger.arrays(count)[0]) == {5: 100, 9: 280}[more]
        assert ledger.plans.proved
        ledger.site(update(), [GROUP, (SOME_ROWS,)], [GROUP])
        assert not ledger.plans.proved or more == 9  # what is kept out at the first time changes how kernels are given it


@pytest.mark.parametrize("numerics", ["deferred", "replay"])
def test_a_queue_that_cannot_be_replayed_is_looked_through_a_few_times_only(monkeypatch: pytest.MonkeyPatch, numerics: str) -> None:
    """A step changes the whole of a table of which another one changes rows."""
    table, looks = Table(numerics), list[int]()
    look = table.ledger.plans._passage  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(table.ledger.plans, "_passage", lambda entries: looks.append(len(entries)) or look(entries))
    whole = table.ledger.site(kernel_of("whole", lambda rows, count: [rows / 2, count + 1], GROUP), [GROUP], [GROUP])
    for _ in range(100):
        (table.bundle,) = table.ledger.call(whole, [table.bundle])
        table.expected /= 2
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()
    assert 0 < len(looks) < 20


def test_a_chain_has_the_tables_that_are_kept_out_of_the_heaps_later() -> None:
    """Rows of one table of a group are looked up, a step that looks up those of another one is linked, and the first one goes on."""
    ledger, avals = Ledger("replay"), [TABLE, TABLE, SOME_ROWS, NUMBERS]

    def lookup(number: int) -> Site:
        def added(*arrays: Any) -> list[Any]:
            return [arrays[2] + arrays[number]]

        return ledger.site(
            row_kernel_of("lookup", added, avals, [Port(number, 3, 0, ROWS)]), [(TABLE, TABLE), (SOME_ROWS,)], [(SOME_ROWS,)]
        )

    group, total = Bundle.of([jax.numpy.ones(TABLE.shape)] * 2), Bundle.of([np.zeros(SOME_ROWS.shape, np.float32)])
    first = lookup(0)
    for expected in (20.0, 40.0):
        for _ in range(20):
            (total,) = ledger.call(first, [group, total], None, (np.arange(IDS, dtype=np.int32),))
        assert (np.asarray(ledger.arrays(total)[0]) == expected).all()
        lookup(1)
    assert not ledger.plans.refuted


@pytest.mark.parametrize("numerics", ["loop", "replay"])
def test_what_waits_to_be_computed_has_the_numbers_of_before_where_a_table_is_kept_out_of_the_heap(numerics: str) -> None:
    """Steps change whole versions, some of which wait in the heap without a bundle when a step that looks up rows is linked."""
    ledger = Ledger(numerics)
    table, expected = Bundle.of([jax.numpy.ones(TABLE.shape), np.array(0, np.int32)]), 1.0
    more = ledger.site(kernel_of("more", lambda rows, count: [2 * rows, count + 1], GROUP), [GROUP], [GROUP])
    for count in (30, 31):  # two registers take turns: after an odd number of steps, the one that the first of them reads has no bundle
        ledger.flush()
        for _ in range(count):
            (table,) = ledger.call(more, [table])
            expected *= 2
    ledger.site(gather(), [GROUP], [(SOME_ROWS,)])
    rows, count = ledger.arrays(table)
    assert int(count) == 61 and (np.asarray(rows) == expected).all()
    assert not ledger.plans.refuted


@pytest.mark.parametrize("numerics", ["loop", "deferred", "replay", "vmap"])
def test_a_table_that_was_read_before_its_rows_were_stays_as_it_was(numerics: str) -> None:
    """What a read has given is not donated to the first update of rows."""
    ledger = Ledger(numerics)
    more = ledger.site(kernel_of("more", lambda rows, count: [rows + 1, count], GROUP), [GROUP], [GROUP])
    (table,) = ledger.call(more, [Bundle.of([jax.numpy.zeros(TABLE.shape), np.array(0, np.int32)])])
    seen = ledger.arrays(table)[0]
    change = ledger.site(update(), [GROUP, (SOME_ROWS,)], [GROUP])
    for _ in range(20):
        rows = Bundle.of([np.ones(SOME_ROWS.shape, np.float32)])
        (table,) = ledger.call(change, [table, rows], None, (np.arange(IDS, dtype=np.int32),))
    assert (np.asarray(ledger.arrays(table)[0])[: IDS + 1, 0] == [-19] * IDS + [1]).all()
    assert (np.asarray(seen) == 1).all()


@pytest.mark.parametrize("numerics", ["loop", "deferred", "replay"])
def test_the_rest_of_a_version_is_there_after_its_table_was_overwritten(numerics: str) -> None:
    """What is computed behind an update in place reads the counter of the version before it, and not its table."""
    table = Table(numerics)
    seen = table.ledger.site(kernel_of("seen", lambda rows, count, more: [count + more], [*GROUP, COUNT]), [GROUP, (COUNT,)], [(COUNT,)])
    total = Bundle.of([np.array(0, np.int32)])
    for _ in range(100):
        before = table.bundle
        table.step()
        (total,) = table.ledger.call(seen, [before, total])
    del before
    assert int(table.ledger.arrays(total)[0]) == sum(range(100))
    assert np.asarray(table.present).tobytes() == table.expected.tobytes()


def test_an_update_in_place_copies_no_table() -> None:
    kernel = update()
    given = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in kernel.in_avals]
    assert not copies_of_tables(donating(kernel, frozenset({0})).jitted.lower(*given).compile().as_text() or "")
    assert copies_of_tables(kernel.jitted.lower(*given).compile().as_text() or "")
