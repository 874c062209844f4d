from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import traitlets

import simdist_widgets as sw
from sampling import sampled
from simdist.collectives.base import Schedule, Transfer
from simdist.collectives.ring import RING
from simdist.errors import InvalidArgumentError
from simdist_widgets import collective_states as states
from simdist_widgets import collective_text as text
from simdist_widgets.collective_data import arrow_lanes, rank_colors


def collective(num_ranks: int) -> Schedule:
    """All-reduce between ranks that are 1, 2, 4, ... apart; everything in one chunk."""
    distances = [1 << step for step in range(num_ranks.bit_length() - 1)]
    transfers = [Transfer(step, r, r ^ d, (0,), True) for step, d in enumerate(distances) for r in range(num_ranks)]
    return Schedule("all_reduce", "recursive doubling", num_ranks, 1, tuple(transfers))


def broadcast() -> Schedule:
    """From rank 0 to three others, in two chunks."""
    first, second = Transfer(0, 0, 2, (0, 1), False), [Transfer(1, r, r + 1, (0, 1), False) for r in (0, 2)]
    return Schedule("broadcast", "tree", 4, 2, (first, *second))


def all_to_all(n: int) -> Schedule:
    """Chunk s * n + t goes from rank s to rank t."""
    pairs = [(step, rank, (rank + step + 1) % n) for step in range(n - 1) for rank in range(n)]
    return Schedule("all_to_all", "pairwise", n, n * n, tuple(Transfer(step, s, t, (s * n + t,), False) for step, s, t in pairs))


def gather_to_root() -> Schedule:
    return Schedule("reduce", "star", 3, 1, (Transfer(0, 1, 0, (0,), True), Transfer(1, 2, 0, (0,), True)))


def random_schedule(seed: int) -> Schedule:
    """Any transfers that keep the rules: within a step nobody receives a chunk twice, nobody sends to himself."""
    random = np.random.default_rng(seed)
    ranks, chunks = int(random.integers(2, 7)), int(random.integers(1, 6))
    transfers: list[Transfer] = []
    for step in range(int(random.integers(1, 6))):
        free = {(target, chunk) for target in range(ranks) for chunk in range(chunks)}
        for _ in range(int(random.integers(0, 8))):
            source, target = (int(rank) for rank in random.permutation(ranks)[:2])
            wanted = tuple(chunk for chunk in range(chunks) if (target, chunk) in free and random.random() < 0.5)
            if wanted:
                transfers.append(Transfer(step, source, target, wanted, bool(random.random() < 0.5)))
                free -= {(target, chunk) for chunk in wanted}
    kind = "all_reduce" if seed % 3 == 0 else "broadcast"  # of the latter, everything that is there in the end is a result
    return Schedule(kind, "random", ranks, chunks, tuple(transfers))


SCHEDULES = [RING.schedule(1), RING.schedule(2), RING.schedule(5), collective(8), broadcast(), all_to_all(3), gather_to_root()]
SCHEDULES += [random_schedule(seed) for seed in range(12)]
named = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.algorithm}-{s.kind}-{s.num_ranks}")


def interpreted(schedule: Schedule) -> list[dict[tuple[int, int], frozenset[int]]]:
    """The sets of contributors by a plain reading of the schedule, with Python sets, one step after the other."""
    now = {(rank, chunk): frozenset([rank]) for rank in range(schedule.num_ranks) for chunk in range(schedule.num_chunks)}
    history = [now]
    for step in range(schedule.num_steps):
        after = dict(now)
        for t in schedule.transfers:
            for chunk in t.chunks if t.step == step else ():
                after[t.target, chunk] = now[t.source, chunk] | (now[t.target, chunk] if t.adds else frozenset())
        history.append(now := after)
    return history


@named
def test_contributions_are_those_of_a_plain_reading(schedule: Schedule) -> None:
    held = states.contributions(schedule)
    for moment, cells in enumerate(interpreted(schedule)):
        assert {cell: frozenset(np.flatnonzero(held[moment][cell]).tolist()) for cell in cells} == cells


@pytest.mark.parametrize(
    "schedule", [*map(RING.schedule, range(1, 9)), collective(2), collective(8)], ids=lambda s: f"{s.algorithm}-{s.num_ranks}"
)
def test_all_reduce_ends_with_everybody_complete(schedule: Schedule) -> None:
    assert states.contributions(schedule)[-1].all()
    last = sw.CollectiveStepper(schedule).header["steps"][-1]
    assert last["complete"] == schedule.num_ranks * schedule.num_chunks
    assert last["text"].endswith("Now every rank holds the whole sum.")


@named
def test_data_that_is_not_needed_may_be_destroyed_at_any_moment(schedule: Schedule) -> None:
    held = states.contributions(schedule)
    wanted = states.needed(schedule, held)
    results = wanted[-1]
    values = np.random.default_rng(1).integers(1, 100, wanted.shape[1:]).astype(float)
    numbers = states.numbers(schedule, values)
    for moment in range(schedule.num_steps + 1):
        damaged = np.where(wanted[moment], numbers[moment], -1e9)
        rest = tuple(t for t in schedule.transfers if t.step >= moment)
        end = states.numbers(Schedule("", "", schedule.num_ranks, schedule.num_chunks, rest), damaged)[-1]
        np.testing.assert_array_equal(end[results], numbers[-1][results])


@named
def test_data_that_is_needed_changes_a_result_when_it_changes(schedule: Schedule) -> None:
    held = states.contributions(schedule)
    wanted = states.needed(schedule, held)
    plain = states.numbers(schedule, np.zeros(wanted.shape[1:]))[-1]
    for rank, chunk in np.argwhere(wanted[0]):
        one = np.zeros(wanted.shape[1:])
        one[rank, chunk] = 1.0
        assert (states.numbers(schedule, one)[-1] != plain)[wanted[-1]].any()


def test_numbers_of_an_all_reduce_are_the_sums_of_the_columns() -> None:
    values = np.random.default_rng(0).integers(-50, 50, (5, 5))
    np.testing.assert_array_equal(states.numbers(RING.schedule(5), values)[-1], np.tile(values.sum(0), (5, 1)))


def test_results_of_an_all_to_all_are_each_ranks_column() -> None:
    schedule = all_to_all(3)
    held = states.contributions(schedule)
    wanted = states.needed(schedule, held)
    sources = [[s for chunk in range(9) if wanted[-1, t, chunk] for s in np.flatnonzero(held[-1, t, chunk])] for t in range(3)]
    assert sources == [[0, 1, 2]] * 3
    assert wanted.sum((1, 2)).tolist() == [9, 9, 9]
    assert states.complete(schedule, held, wanted).sum((1, 2)).tolist() == [3, 6, 9]


def test_chunks_of_a_broadcast_are_in_place_where_they_have_arrived() -> None:
    assert [step["complete"] for step in sw.CollectiveStepper(broadcast()).header["steps"]] == [2, 4, 8]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 8])
def test_seconds_of_a_ring_are_those_of_the_closed_form(num_ranks: int) -> None:
    ends_s = states.seconds_by_step(RING.schedule(num_ranks), 1e6, 1e-3, 1e8)
    assert ends_s[-1] == pytest.approx(RING.seconds(num_ranks, 1e6, 1e-3, 1e8))
    assert np.all(np.diff(ends_s) > 0)


def test_transfers_of_a_step_share_the_port_of_their_source() -> None:
    star = Schedule("broadcast", "star", 4, 1, tuple(Transfer(0, 0, target, (0,), False) for target in (1, 2, 3)))
    assert states.seconds_by_step(star, 100, 0.5, 100).tolist() == [0.0, 3.5]


def test_rank_does_not_wait_for_others_than_its_partners() -> None:
    pairs = [Transfer(0, 0, 1, (0, 1), True), Transfer(1, 2, 3, (0,), True), Transfer(2, 1, 2, (0,), True)]
    schedule = Schedule("reduce", "uneven", 4, 2, tuple(pairs))
    assert states.seconds_by_step(schedule, 200, 0.0, 100).tolist() == [0.0, 2.0, 2.0, 3.0]


def test_bytes_sent_agree_with_the_schedule() -> None:
    steps = sw.CollectiveStepper(RING.schedule(4), size_bytes=4000).header["steps"]
    assert [step["sent_bytes"] for step in steps] == [4000.0 * s for s in range(7)]
    assert steps[-1]["sent_bytes"] == RING.schedule(4).bytes_sent(4000)
    assert steps[-1]["busiest_bytes"] == 6000.0


@pytest.mark.parametrize(
    ("transfers", "num_ranks", "words"),
    [
        ([(0, 1, 1)], 3, "rank 0 sends one chunk to rank 1"),
        ([(0, 2, 1), (1, 0, 1), (2, 1, 1)], 3, "every rank sends one chunk to the rank before"),
        ([(r, (r + 2) % 5, 2) for r in range(5)], 5, "every rank sends 2 chunks to the rank 2 places on"),
        ([(0, 1, 1), (1, 0, 1)], 2, "both ranks send each other one chunk"),
        ([(r, r ^ 2, 4) for r in range(8)], 8, "ranks that are 2 apart send each other 4 chunks"),
        ([(0, 4, 1), (4, 0, 1)], 8, "ranks 0 and 4 send each other one chunk"),
        ([(0, 3, 1), (3, 0, 1), (1, 2, 1), (2, 1, 1)], 4, "2 pairs of ranks send each other one chunk"),
        ([(0, r, 1) for r in (1, 2, 3)], 4, "rank 0 sends one chunk to each of 3 other ranks"),
        ([(r, 0, 2) for r in (1, 2, 3)], 4, "3 ranks send 2 chunks each to rank 0"),
        ([(s, t, 1) for s in range(3) for t in range(3) if s != t], 3, "every rank sends one chunk to every other rank"),
        ([(0, 1, 1), (2, 3, 1)], 4, "2 ranks send one chunk each: 0 to 1, 2 to 3"),
        ([(r, r + 8, 1) for r in range(8)], 16, "8 ranks send one chunk each, to the rank 8 places on"),
        ([(0, 1, 1), (2, 4, 3)], 5, "2 ranks send 1 to 3 chunks each: 0 to 1, 2 to 4"),
        ([(0, 1, 1), (0, 2, 1), (1, 3, 1)], 5, "2 ranks send one chunk in each of 3 transfers"),
        ([(r, (r + 4) % 7, 1) for r in range(7)], 7, "every rank sends one chunk to the rank 3 places back"),
    ],
)
def test_sentence_names_the_pattern(transfers: list[tuple[int, int, int]], num_ranks: int, words: str) -> None:
    step = [Transfer(0, source, target, tuple(range(count)), True) for source, target, count in transfers]
    assert text.sentence(step, num_ranks) == f"{words}. What arrives is added to the receiver's own."


def test_sentence_tells_adding_from_replacing() -> None:
    replacing, adding = Transfer(0, 0, 1, (0,), False), Transfer(0, 1, 2, (0,), True)
    assert text.sentence([replacing], 3).endswith("What arrives replaces the receiver's own.")
    assert "added in 1 of 2 transfers" in text.sentence([replacing, adding], 3)
    assert text.sentence([], 3) == "nobody sends anything."


def test_outcome_says_who_holds_what() -> None:
    texts = [sw.CollectiveStepper(schedule).header["steps"][-1]["text"] for schedule in (gather_to_root(), broadcast())]
    assert texts[0].endswith("Now rank 0 holds the whole sum.")
    assert texts[1].endswith("Now every rank holds all that it should hold.")


def test_outcome_of_a_wrong_all_reduce_says_what_is_missing() -> None:
    ring = RING.schedule(4)
    short = Schedule("all_reduce", "ring", 4, 4, tuple(t for t in ring.transfers if t.step < 4))
    assert sw.CollectiveStepper(short).header["steps"][-1]["text"].endswith("Now every rank holds the sum of 2 chunks.")


def test_what_a_wrong_all_reduce_ends_with_is_its_result_on_all_ranks() -> None:
    forgetful = Schedule("all_reduce", "forgetful", 3, 1, (Transfer(0, 0, 1, (0,), True), Transfer(1, 1, 0, (0,), False)))
    needed = states.needed(forgetful, states.contributions(forgetful))
    assert needed[:, :, 0].tolist() == [[True, True, True], [False, True, True], [True, True, True]]
    header = sw.CollectiveStepper(forgetful).header
    assert (header["steps"][-1]["complete"], header["results"]) == (0, 3)


def test_what_a_wrong_reduce_ends_with_is_where_most_is() -> None:
    forgetful = Schedule("reduce", "forgetful", 3, 1, (Transfer(0, 1, 0, (0,), True),))
    needed = states.needed(forgetful, states.contributions(forgetful))
    assert needed[:, :, 0].tolist() == [[True, True, False], [True, False, False]]


@named
def test_results_are_counted_in_the_header(schedule: Schedule) -> None:
    header = sw.CollectiveStepper(schedule).header
    right = schedule.algorithm != "random"
    assert header["results"] == header["steps"][-1]["complete"] if right else header["results"] >= header["steps"][-1]["complete"]


def test_sum_that_counts_a_rank_twice_is_not_complete() -> None:
    transfers = [Transfer(step, source, 0, (0,), True) for step, source in enumerate([1, 1, 2])]
    widget = sw.CollectiveStepper(Schedule("reduce", "forgetful", 3, 1, tuple(transfers)), step=3)
    assert widget.header["steps"][-1]["text"].endswith("Now 0 of 3 chunks are complete.")
    assert [words.get_text() for words in widget.picture().axes[0].texts] == ["added twice", "1 of 3", "1 of 3"]


def test_arrows_on_one_side_of_a_column_do_not_lie_on_each_other() -> None:
    transfers = [t for t in collective(8).transfers if t.step == 2]
    lanes = arrow_lanes(transfers)
    downwards = [lane for t, [lane] in zip(transfers, lanes, strict=True) if t.target > t.source]
    upwards = [lane for t, [lane] in zip(transfers, lanes, strict=True) if t.target < t.source]
    assert sorted(downwards) == sorted(upwards) == [0, 1, 2, 3]


def test_arrows_that_only_meet_share_a_lane() -> None:
    assert arrow_lanes([Transfer(0, r, r + 1, (0,), True) for r in range(3)]) == [[0], [0], [0]]


@pytest.mark.parametrize("num_ranks", [1, 8, 9, 64])
def test_every_rank_has_a_colour_of_its_own(num_ranks: int) -> None:
    colors = rank_colors(num_ranks)
    assert len(set(colors)) == num_ranks
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in colors)


def column(widget: sw.CollectiveStepper, name: str, dtype: Any) -> np.ndarray:
    place = widget.header["columns"][name]
    return np.frombuffer(widget.data, dtype, place["length"], place["offset"])


def test_bytes_hold_the_states_of_every_moment() -> None:
    schedule = RING.schedule(9)  # two bytes for each chunk
    widget = sw.CollectiveStepper(schedule, values=np.arange(81).reshape(9, 9))
    shape = (schedule.num_steps + 1, 9, 9)
    bits = np.unpackbits(column(widget, "held", np.uint8).reshape(*shape, 2), axis=-1, count=9, bitorder="little")
    np.testing.assert_array_equal(bits, states.contributions(schedule))
    assert column(widget, "complete", np.uint8).reshape(shape).sum((1, 2)).tolist() == [0] * 8 + [9 * k for k in range(1, 10)]
    np.testing.assert_array_equal(column(widget, "numbers", np.float64).reshape(shape)[0], np.arange(81).reshape(9, 9))


def test_repr_is_one_line_that_depends_on_the_data_alone() -> None:
    widgets = [sw.CollectiveStepper(RING.schedule(4), size_bytes=4000, latency_s=0.5, bandwidth_bytes_per_s=1000) for _ in range(2)]
    line = "CollectiveStepper(ring all-reduce, 4 ranks, 4 chunks, 4000 bytes, step 0 of 6, 0.000000 seconds)"
    assert [repr(widget) for widget in widgets] == [line, line]
    widgets[0].step = 6
    assert repr(widgets[0]) == line.replace("step 0", "step 6").replace("0.000000", "9.000000")


def test_step_outside_of_the_collective_is_refused() -> None:
    widget = sw.CollectiveStepper(RING.schedule(3), step=4)
    with pytest.raises(InvalidArgumentError, match=r"step must be 0 \(before the first\) to 4; given 5"):
        widget.step = 5
    with pytest.raises(InvalidArgumentError, match="given -1"):
        widget.figure(-1)
    with pytest.raises(traitlets.TraitError):
        widget.step = 1.5
    assert widget.step == 4


def test_step_travels_to_the_front_end() -> None:
    assert {"header", "data", "step"} <= set(sw.CollectiveStepper(RING.schedule(3)).keys)


def test_figure_shows_the_words_and_one_arrow_for_each_chunk_that_travels() -> None:
    from matplotlib.patches import FancyArrowPatch

    widget = sw.CollectiveStepper(RING.schedule(4), step=2)
    ax = widget.picture().axes[0]
    assert sum(isinstance(patch, FancyArrowPatch) for patch in ax.patches) == 4
    assert [words.get_text() for words in ax.texts].count("3 of 4") == 4
    assert ax.get_title(loc="left") == "Ring all-reduce, step 2 of 6"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["rank 0", "rank 1", "rank 2", "rank 3"]


def test_figure_shows_values_where_they_are_given() -> None:
    widget = sw.CollectiveStepper(RING.schedule(2), values=[[1, 2], [10, 20]])
    assert sorted(words.get_text() for words in widget.figure(2).axes[0].texts) == ["11", "11", "22", "22"]


@pytest.mark.parametrize("number", sampled(range(len(SCHEDULES)), range(0, len(SCHEDULES), 3)))
def test_every_step_can_be_drawn(number: int) -> None:
    schedule = SCHEDULES[number]
    widget = sw.CollectiveStepper(schedule)
    for step in {0, schedule.num_steps // 2, schedule.num_steps}:
        assert widget.figure(step).axes
    assert widget.png().startswith(b"\x89PNG")


def test_exported_page_holds_the_data_and_loads_nothing(tmp_path: Path) -> None:
    widget = sw.CollectiveStepper(RING.schedule(4), step=2)
    page = widget.export_html(tmp_path / "page.html", title="A ring").read_text()
    found = re.search(r'id="simdist-state-0">(.*?)</script>', page)
    assert found is not None
    state = json.loads(found[1])
    assert state["values"] == {"header": widget.header, "step": 2}
    assert base64.b64decode(state["bytes"]["data"]) == widget.data
    assert 'data-simdist-widget="collective_stepper"' in page
    assert not re.search(r"https?://|@import|\bimport\(", page)


def test_algorithm_instead_of_a_schedule_is_told_what_to_call() -> None:
    with pytest.raises(TypeError, match=r"expected a Schedule, got Algorithm; call its \.schedule\(num_ranks\)"):
        sw.CollectiveStepper(RING)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"got int; pass for instance ring\.schedule\(4\)"):
        sw.CollectiveStepper(4)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", [{"size_bytes": -1}, {"latency_s": float("nan")}, {"bandwidth_bytes_per_s": 0}])
def test_quantity_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{next(iter(wrong))}={next(iter(wrong.values()))}"):
        sw.CollectiveStepper(RING.schedule(2), **wrong)


@pytest.mark.parametrize(
    "wrong", [{"size_bytes": "1"}, {"latency_s": None}, {"bandwidth_bytes_per_s": "fast"}, {"step": 1.5}, {"step": "1"}]
)
def test_what_is_no_number_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=rf"^CollectiveStepper: {next(iter(wrong))} is .*; expected an? "):
        sw.CollectiveStepper(RING.schedule(2), **wrong)
    with pytest.raises(TypeError, match=r"step is 0\.5; expected an integer"):
        sw.CollectiveStepper(RING.schedule(2)).figure(0.5)  # pyright: ignore[reportArgumentType]


def test_values_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"one number for each rank and chunk, shape \(3, 3\); given shape \(3,\)"):
        sw.CollectiveStepper(RING.schedule(3), values=[1, 2, 3])


def test_more_than_can_be_seen_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"100 ranks with 100 chunks in 198 steps .* take fewer ranks"):
        sw.CollectiveStepper(RING.schedule(100))


def test_a_schedule_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"mine on 2 ranks, .* a rank does not send to itself"):
        sw.CollectiveStepper(Schedule("all_reduce", "mine", 2, 1, (Transfer(0, 0, 0, (0,), True),)))
