"""What collectives take: closed forms against tables, and against the network of the simulation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.collectives import ALGORITHMS, ALL_REDUCE, Algorithm, algorithm, double_tree
from timed_schedule import timed

LATENCY_S, BANDWIDTH_BYTES_PER_S = 10e-6, 10e9
EVERY = [(kind, name) for kind, known in ALGORITHMS.items() for name in known]

# Derived by hand from the formulas for n = 8, in seconds, without rounding.
TABLE = [
    ("ring", 1e3, 14 * (10e-6 + 125 / 10e9)),
    ("ring", 1e6, 14 * (10e-6 + 125e3 / 10e9)),
    ("ring", 100e6, 14 * (10e-6 + 12.5e6 / 10e9)),
    ("recursive doubling", 1e3, 30.3e-6),
    ("recursive doubling", 1e6, 330e-6),
    ("recursive doubling", 100e6, 30.03e-3),
    ("rabenseifner", 1e3, 60e-6 + 0.175e-6),
    ("rabenseifner", 1e6, 235e-6),
    ("rabenseifner", 100e6, 17.56e-3),
    ("binomial", 1e3, 60.6e-6),
    ("binomial", 1e6, 660e-6),
    ("binomial", 100e6, 60.06e-3),
]
AS_PRINTED = {
    "ring": (140.2e-6, 315e-6, 17.64e-3),
    "recursive doubling": (30.3e-6, 330e-6, 30.03e-3),
    "rabenseifner": (60.2e-6, 235e-6, 17.56e-3),
    "binomial": (60.6e-6, 660e-6, 60.06e-3),
}


@pytest.mark.parametrize(("name", "size_bytes", "expected_s"), TABLE)
def test_closed_form_and_simulated_time_equal_the_table(name: str, size_bytes: float, expected_s: float) -> None:
    found = ALL_REDUCE[name]
    assert found.seconds(8, size_bytes, LATENCY_S, BANDWIDTH_BYTES_PER_S) == pytest.approx(expected_s, rel=1e-9)
    assert timed(found.schedule(8), size_bytes, LATENCY_S, BANDWIDTH_BYTES_PER_S) == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("name", AS_PRINTED)
def test_closed_form_rounds_to_the_printed_table(name: str) -> None:
    for size_bytes, printed_s in zip((1e3, 1e6, 100e6), AS_PRINTED[name], strict=True):
        seconds = ALL_REDUCE[name].seconds(8, size_bytes, LATENCY_S, BANDWIDTH_BYTES_PER_S)
        assert seconds == pytest.approx(printed_s, rel=0, abs=0.05e-6)


def ranks_of(found: Algorithm) -> list[int]:
    powers_only = (found.kind, found.name) == ("all_gather", "recursive doubling")
    return [1, 2, 4, 8, 16] if powers_only else [*range(1, 10), 16]


@pytest.mark.parametrize(("kind", "name"), EVERY)
@pytest.mark.sample(2)
def test_simulated_time_equals_the_closed_form_for_any_number_of_ranks(kind: str, name: str) -> None:
    found = algorithm(kind, name)
    for n in ranks_of(found):
        for size_bytes in (720.0, 1e6):
            simulated_s = timed(found.schedule(n), size_bytes, LATENCY_S, BANDWIDTH_BYTES_PER_S)
            assert simulated_s == pytest.approx(found.seconds(n, size_bytes, LATENCY_S, BANDWIDTH_BYTES_PER_S), rel=1e-9)


@given(
    name=st.sampled_from(sorted(ALL_REDUCE)),
    n=st.integers(1, 20),
    size_bytes=st.floats(1.0, 1e9),
    latency_s=st.floats(0.0, 1e-2),
    bandwidth=st.floats(1e6, 1e11),
)
@examples(60)
def test_simulated_all_reduce_takes_the_closed_form_on_any_switch(
    name: str, n: int, size_bytes: float, latency_s: float, bandwidth: float
) -> None:
    found = ALL_REDUCE[name]
    simulated_s = timed(found.schedule(n), size_bytes, latency_s, bandwidth)
    assert simulated_s == pytest.approx(found.seconds(n, size_bytes, latency_s, bandwidth), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("n", [2, 3, 7, 8, 16])
def test_other_collectives_take_the_textbook_formula(n: int) -> None:
    alpha, beta, size = LATENCY_S, 1 / BANDWIDTH_BYTES_PER_S, 3e6
    half_ring_s = (n - 1) * alpha + (n - 1) / n * size * beta
    figures = (n, size, alpha, BANDWIDTH_BYTES_PER_S)
    assert algorithm("reduce_scatter", "ring").seconds(*figures) == pytest.approx(half_ring_s, rel=1e-9)
    assert algorithm("all_gather", "ring").seconds(*figures) == pytest.approx(half_ring_s, rel=1e-9)
    assert ALL_REDUCE["ring"].seconds(*figures) == pytest.approx(2 * half_ring_s, rel=1e-9)


@pytest.mark.parametrize("pieces", [1, 2, 5, 40])
def test_double_tree_takes_as_many_steps_as_it_has_whatever_the_pieces(pieces: int) -> None:
    found = double_tree(pieces)
    for n in (2, 3, 5, 8, 13):
        simulated_s = timed(found.schedule(n), 1e6, LATENCY_S, BANDWIDTH_BYTES_PER_S)
        assert simulated_s == pytest.approx(found.seconds(n, 1e6, LATENCY_S, BANDWIDTH_BYTES_PER_S), rel=1e-9)


def test_double_tree_has_the_latency_of_a_tree_and_nearly_the_bandwidth_of_a_ring() -> None:
    steps = [double_tree(1).schedule(n).num_steps for n in (8, 16, 32, 64, 128)]
    assert [later - earlier for earlier, later in pairwise(steps)] == [4] * 4
    ring_s = ALL_REDUCE["ring"].seconds(64, 1e12, 0.0, BANDWIDTH_BYTES_PER_S)
    assert double_tree(128).seconds(64, 1e12, 0.0, BANDWIDTH_BYTES_PER_S) < 1.4 * ring_s


def test_driver_lets_messages_share_a_port() -> None:
    """Of the reduction to one, 7 copies of the sum leave through one port at once."""
    back_s = 7 * 1e6 / BANDWIDTH_BYTES_PER_S
    there_s = 7 * (LATENCY_S + 1e6 / BANDWIDTH_BYTES_PER_S)
    simulated_s = timed(ALL_REDUCE["reduction to one"].schedule(8), 1e6, LATENCY_S, BANDWIDTH_BYTES_PER_S)
    assert simulated_s == pytest.approx(there_s + LATENCY_S + back_s, rel=1e-9)
