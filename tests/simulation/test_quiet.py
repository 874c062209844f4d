"""Flows in closed form against ordinary flows: the same programs with both, to the last bit; what looks at them, and what they leave."""

from __future__ import annotations

import gc
import random
import weakref
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fluid_model import broken_invariants
from quiet_programs import Program, Run, Transfer
from sampling import examples, sampled
from simdist.simulation import course, settlement
from simdist.simulation.course import Course
from simdist.simulation.kernel import Clock
from simdist.simulation.links import Link
from simdist.simulation.network import Flow, QuietFlows, SharedLinks

SIZES = [100.0, 200.0, 300.0, 50.0, 1 / 3, 123.4]
MOMENTS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 0.3, 1.234]
BANDWIDTHS = [100.0, 200.0, 50.0, 133.3]
COMPUTERS = 4


@some.composite
def star_programs(draw: some.DrawFn, only_starts: bool = False) -> Program:
    """Transfers from one computer to some others, or back, as calls are: over the port of each; everything may coincide."""
    number = some.integers(0, COMPUTERS - 1)
    capacities = tuple(draw(some.sampled_from(BANDWIDTHS)) for _ in range(2 * COMPUTERS))
    transfers: list[Transfer] = []
    num_transfers = draw(some.integers(1, 5))
    other_transfer = some.integers(0, num_transfers - 1)
    link = some.integers(0, 2 * COMPUTERS - 1)
    deeds = some.one_of(
        some.tuples(some.just("start"), other_transfer),
        some.tuples(some.just("stop"), other_transfer),
        some.tuples(some.just("unfold"), other_transfer),
        some.tuples(some.just("carried")),
        some.tuples(some.just("bandwidth"), link, some.sampled_from([0.0, 70.0, *BANDWIDTHS])),
    )
    for _ in range(num_transfers):
        one, others, is_sent = draw(number), draw(some.sets(number, min_size=1)), draw(some.booleans())
        ports = [(2 * one, 2 * other + 1) if is_sent else (2 * other, 2 * one + 1) for other in sorted(others)]
        is_whole = draw(some.booleans())
        then = {} if is_whole or only_starts else draw(some.dictionaries(some.integers(0, len(ports) - 1), deeds, max_size=1))
        transfers.append(Transfer(tuple((route, draw(some.sampled_from(SIZES))) for route in ports), is_whole, then))
    happenings: list[tuple[Any, ...]] = [(draw(some.sampled_from(MOMENTS)), "start", transfer) for transfer in range(num_transfers)]
    if not only_starts:
        happenings += [(moment, *deed) for moment, deed in draw(some.lists(some.tuples(some.sampled_from(MOMENTS), deeds), max_size=4))]
        happenings += [(9.0, "bandwidth", link, 100.0) for link in range(2 * COMPUTERS)]
    return Program(capacities, tuple(transfers), tuple(happenings))


def both(program: Program) -> tuple[Run, Run]:
    return Run(program, closed_form=True), Run(program, closed_form=False)


def assert_alike(quiet: Run, ordinary: Run) -> None:
    """Ends and their order within each transfer, to the last bit; what looks have seen; what links have carried, and keep."""
    assert quiet.by_transfer == ordinary.by_transfer
    for seen, expected in zip(quiet.seen, ordinary.seen, strict=True):
        assert seen == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert [link.bytes_carried for link in quiet.links] == pytest.approx(
        [link.bytes_carried for link in ordinary.links], rel=1e-9, abs=1e-9
    )
    assert [link for link in quiet.links if link.quiet is not None] == []
    assert [len(link.flows) for link in quiet.links] == [len(link.flows) for link in ordinary.links]
    assert broken_invariants(quiet.shared, quiet.links) == []


@examples(100)
@given(star_programs())
def test_flows_in_closed_form_end_when_ordinary_ones_do_whatever_happens(program: Program) -> None:
    assert_alike(*both(program))


@examples(30)
@given(star_programs(only_starts=True))
def test_links_have_carried_the_same_to_the_last_bit_when_all_has_come(program: Program) -> None:
    quiet, ordinary = both(program)
    assert [link.bytes_carried for link in quiet.links] == [link.bytes_carried for link in ordinary.links]


def test_bytes_that_are_no_whole_numbers_are_added_up_one_by_one() -> None:
    for seed in range(10):
        draw = random.Random(seed)
        transfers = tuple(Transfer(tuple(((number, 3), draw.random()) for number in range(3)), draw.random() < 0.5) for _ in range(2))
        quiet, ordinary = both(Program((9.0, 9.0, 9.0, 1.0), transfers, ((0.0, "start", 0), (9.0, "start", 1))))
        assert quiet.num_quiet == 2
        assert [link.bytes_carried for link in quiet.links] == [link.bytes_carried for link in ordinary.links]


def tangled(seed: int) -> Program:
    """Routes over any links in any order, where several may limit alike."""
    draw = random.Random(seed)
    count = draw.randint(2, 6)
    capacities = tuple(draw.choice([100.0, 100.0, 200.0, 300.0, 70.0]) for _ in range(count))
    transfers: list[Transfer] = []
    for _ in range(draw.randint(1, 5)):
        common = draw.randrange(count)
        routes = [draw.sample(range(count), draw.randint(1, min(3, count))) for _ in range(draw.choice([1, 2, 3, 7]))]
        loads = tuple((tuple(dict.fromkeys((*route, common))), draw.choice([*SIZES, draw.random() * 500 + 1])) for route in routes)
        transfers.append(Transfer(loads, draw.random() < 0.4))
    happenings: list[tuple[Any, ...]] = [(draw.choice(MOMENTS), "start", transfer) for transfer in range(len(transfers))]
    for _ in range(draw.randint(0, 3)):
        link, moment = draw.randrange(count), draw.choice(MOMENTS)
        happenings += [(moment, "bandwidth", link, draw.choice([0.0, 100.0, 60.0])), (moment + 3.0, "bandwidth", link, 100.0)]
    return Program(capacities, tuple(transfers), tuple(happenings))


def test_flows_over_any_tangle_of_links_end_alike_but_for_roundings() -> None:
    exact, num_quiet = 0, 0
    for seed in range(300):
        quiet, ordinary = both(tangled(seed))
        ends = [{end[1:]: end[0] for end in run.ends} for run in (quiet, ordinary)]
        assert ends[0] == pytest.approx(ends[1], rel=1e-12)
        exact += ends[0] == ends[1]
        num_quiet += quiet.num_quiet
    assert exact >= 299
    assert num_quiet > 200


def test_flows_whose_queue_counts_from_zero_again_end_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (course, settlement):
        monkeypatch.setattr(module, "RESTART_BYTES", 90.0)
    loads = tuple(((number, 5), size) for number, size in enumerate([100 / 3, 100.1, 250.7, 250.7, 333.3]))
    for seed in range(20):  # with sizes that are no whole numbers, what is counted from zero is rounded otherwise
        draw = random.Random(seed)
        random_loads = tuple(((number, 5), 500.0 * draw.random()) for number in range(5))
        quiet, ordinary = both(Program((200.0,) * 5 + (100.0,), (Transfer(random_loads),), ((0.0, "start", 0),)))
        assert (quiet.ends, quiet.num_quiet) == (ordinary.ends, 1)
    for come_s in (None, 0.5, 2.7182, 4.0, 8.0):
        happenings = [(0.0, "start", 0), *([(come_s, "start", 1), (come_s + 0.1, "carried")] if come_s is not None else [])]
        for is_whole in (False, True):
            transfers = (Transfer(loads, is_whole), Transfer((((5,), 77.7),)))
            quiet, ordinary = both(Program((200.0,) * 5 + (100.0,), transfers, tuple(happenings)))
            assert_alike(quiet, ordinary)
            assert quiet.num_quiet == 1


@pytest.mark.parametrize("come_s", [None, 1.0, 2.0**37 / 1e9, 1_000.0])
def test_flows_of_very_many_bytes_end_alike(come_s: float | None) -> None:
    loads = tuple(((number, 3), size) for number, size in enumerate([2.0**37 + 1, 2.0**38 + 1 / 3, 2.0**39 + 5]))
    happenings = [(0.0, "start", 0), *([(come_s, "start", 1)] if come_s is not None else [])]
    for is_whole in (False, True):
        assert_alike(*both(Program((3e9, 3e9, 3e9, 1e9), (Transfer(loads, is_whole), Transfer((((3,), 2.0**36),))), tuple(happenings))))


def test_thousand_loads_of_three_sizes_end_in_the_order_of_their_start() -> None:
    loads = tuple(((1, 0), 100.0 * (1 + number % 3)) for number in range(1_000))
    for happenings in ([(0.0, "start", 0)], [(0.0, "start", 0), (1_500.0, "start", 1)]):
        quiet, ordinary = both(Program((100.0, 100.0), (Transfer(loads), Transfer((((0,), 5.0),))), tuple(happenings)))
        assert quiet.ends == ordinary.ends
        assert quiet.num_quiet == 1


# -- which transfers are in closed form ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacities", "loads", "is_quiet"),
    [
        ((100.0, 50.0), [((0, 1), 10.0)], True),
        ((100.0, 0.0), [((0, 1), 10.0)], False),
        ((100.0, 100.0), [((0,), 10.0), ((1,), 10.0)], False),  # no common link
        ((100.0, 100.0, 10.0), [((0, 2), 10.0), ((1, 2), 20.0)], True),
        ((4.0, 100.0, 10.0), [((0, 2), 10.0), ((1, 2), 20.0)], False),  # one is slower than its part of the common link
        ((6.0, 100.0, 10.0), [((0, 2), 10.0), ((1, 2), 10.0)], True),
        ((6.0, 100.0, 10.0), [((0, 2), 20.0), ((1, 2), 10.0)], False),  # one is, when the other has ended
        ((5.0, 5.0, 10.0), [((0, 2), 10.0), ((1, 2), 10.0)], False),  # three links limit alike: the first of each route does it
    ],
)
def test_loads_are_in_closed_form_where_one_link_limits_all_of_them_to_the_end(
    capacities: tuple[float, ...], loads: list[tuple[tuple[int, ...], float]], is_quiet: bool
) -> None:
    quiet, ordinary = both(Program(capacities, (Transfer(tuple(loads)),), ((0.0, "start", 0),)))
    assert quiet.num_quiet == is_quiet
    assert quiet.ends == ordinary.ends


def test_whole_transfer_costs_one_event() -> None:
    quiet = Run(
        Program((100.0, 100.0), (Transfer((((0,), 5.0), ((0, 1), 7.0), ((1, 0), 9.0)), is_whole=True),), ((0.0, "start", 0),)), True
    )
    assert next(quiet.clock.sequence) <= 1 + 1 + 1  # the program's, the end of all, the end of the sleep
    assert [moment for moment, *_ in quiet.ends] == [0.21]


# -- who is told, and when ----------------------------------------------------------------------------------------


def three(deed: tuple[Any, ...], at: int, longest: float = 400.0) -> Program:
    """Two equal loads and a longer one; within the call about one of them something happens."""
    loads = (((0, 3), 100.0), ((1, 3), 100.0), ((2, 3), longest))
    return Program((100.0,) * 4, (Transfer(loads, then={at: deed}), Transfer((((3,), 50.0),))), ((0.0, "start", 0),))


@pytest.mark.parametrize("longest", [100.0, 400.0])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    "deed", [("start", 1), ("stop", 0), ("unfold", 0), ("carried",), ("bandwidth", 3, 10.0), ("bandwidth", 0, 0.0)], ids=str
)
def test_equal_loads_are_told_as_ordinary_flows_are_when_a_receiver_acts(deed: tuple[Any, ...], at: int, longest: float) -> None:
    quiet, ordinary = both(three(deed, at, longest))
    assert_alike(quiet, ordinary)
    assert quiet.ends == ordinary.ends


class Failing(Run):
    """The receiver of one load fails."""

    fails = 0

    def one(self, load: Any) -> None:
        if load.transfer == 0 and load.number == self.fails:
            raise ArithmeticError
        super().one(load)


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_others_are_told_when_a_receiver_fails(fails: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "fails", fails)
    ends: list[list[tuple[float, int, int]]] = []
    for closed_form in (True, False):
        run = Failing(three(("start", 1), 0), closed_form, until_s=1.0)
        with pytest.raises(ArithmeticError):
            run.clock.sleep(100.0)
        run.clock.sleep(100.0)
        assert broken_invariants(run.shared, run.links) == []
        assert [link.quiet for link in run.links] == [None] * 4
        ends.append(run.ends)
    assert ends[0] == ends[1]
    assert {number for _, transfer, number in ends[0] if transfer == 0} == {0, 1, 2} - {fails}


def test_loads_of_a_whole_that_have_ended_are_told_when_somebody_comes() -> None:
    clock = Clock()
    shared, port, told = SharedLinks(clock), Link("in", 100.0), list[tuple[float, int]]()
    parts = [Part((port, Link(f"out{number}", 100.0)), 100.0 * number) for number in (1, 2, 3)]
    assert shared.start_course(Course(parts, 0), lambda part: told.append((clock.now, parts.index(part))), pytest.fail)
    clock.sleep(3.5)
    assert told == []
    shared.start((port,), 1.0, len, ())
    assert told == [(3.5, 0)]
    clock.sleep(10.0)
    assert [number for _, number in told] == [0, 1, 2]


def test_nobody_is_told_of_loads_that_had_ended_when_a_whole_is_stopped() -> None:
    clock = Clock()
    shared, port, told = SharedLinks(clock), Link("in", 100.0), list[Any]()
    quiet = shared.start_course(Course([Part((port,), 100.0), Part((port,), 300.0)], 0), told.append, told.append)
    assert quiet is not None
    clock.sleep(2.5)
    shared.stop(quiet)
    clock.sleep(10.0)
    assert (told, port.bytes_carried, len(port.flows), port.quiet) == ([], 250.0, 0, None)


class Part:
    """A load."""

    def __init__(self, links: tuple[Link, ...], size_bytes: float) -> None:
        self.links = links
        self.size_bytes = size_bytes


def test_flow_alone_on_a_link_whose_load_has_ended_ends_as_ever_and_the_rest_is_settled() -> None:
    loads = (((0, 2), 100.0), ((1, 2), 300.0))
    for is_whole in (True, False):
        program = Program((100.0,) * 3, (Transfer(loads, is_whole), Transfer((((0,), 50.0),))), ((0.0, "start", 0), (2.5, "start", 1)))
        quiet, ordinary = both(program)
        assert quiet.ends == ordinary.ends
        middle = Run(program, True, until_s=2.6)
        assert broken_invariants(middle.shared, middle.links) == []


# -- looks --------------------------------------------------------------------------------------------------------


def test_looks_at_a_transfer_on_its_way_see_what_ordinary_flows_would_show() -> None:
    loads = (((0, 3), 100.0), ((1, 3), 200.0), ((2, 3), 400.0))
    for is_whole in (True, False):
        for look_s in (0.5, 3.0, 4.0, 5.0, 6.9, 7.0):
            program = Program((100.0,) * 4, (Transfer(loads, is_whole),), ((0.0, "start", 0), (look_s, "carried"), (look_s, "unfold", 0)))
            quiet, ordinary = both(program)
            assert quiet.seen == [pytest.approx(seen, rel=1e-12) for seen in ordinary.seen]
            assert quiet.ends == ordinary.ends


def test_bytes_that_have_arrived_count_at_the_end_of_their_load() -> None:
    parts = (((0, 2), 100.0), ((1, 2), 300.0))
    for is_whole in (True, False):
        for closed_form in (True, False):
            for until_s, arrived in ((1.9, [0.0, 0.0, 0.0]), (2.1, [100.0, 0.0, 100.0]), (4.1, [100.0, 300.0, 400.0])):
                run = Run(Program((100.0,) * 3, (Transfer(parts, is_whole),), ((0.0, "start", 0),)), closed_form, until_s)
                assert [run.shared.bytes_arrived(link) for link in run.links] == arrived


def test_link_without_a_limit_has_carried_all_bytes_in_the_moment_in_which_they_start() -> None:
    shared, port = SharedLinks(Clock()), Link("in", float("inf"))
    loads: Any = [SimpleNamespace(links=(port,), size_bytes=5.0)]
    shared.start_course(Course(loads, 0), len)
    assert shared.bytes_carried(port) == 5.0


# -- what is left -------------------------------------------------------------------------------------------------


class Receiver:
    """Keeps what it has started, as calls do."""

    def __init__(self, shared: SharedLinks, course: Course, whole: bool) -> None:
        self.flows: list[Flow | QuietFlows | None] = [shared.start_course(course, self.done, self.done if whole else None)]

    def done(self, _: object) -> None:
        pass


FREED = list(product(("end", "stop", "come", "look"), (True, False)))


@pytest.mark.parametrize(("what", "whole"), sampled(FREED, FREED[::3]))
def test_receivers_are_freed_without_the_collector(what: str, whole: bool) -> None:
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", 100.0)
    course = Course([Part((port,), 100.0), Part((port,), 200.0)], 0)
    gc.collect()
    gc.disable()
    try:
        receiver = Receiver(shared, course, whole)
        clock.sleep(2.5)
        if what == "stop":
            for flow in receiver.flows:
                assert flow is not None
                shared.stop(flow)
        elif what == "come":
            shared.start((port,), 5.0, len, ())
        elif what == "look":
            shared.flows_of([flow for flow in receiver.flows if flow is not None])
        clock.sleep(10.0)
        gone = weakref.ref(receiver)
        del receiver
        assert gone() is None
    finally:
        gc.enable()
