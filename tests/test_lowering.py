"""Lowerings that share a context of MLIR: each thread has its own, none for ever, and what is lowered stays the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax._src.interpreters import mlir

import lowering

makes: Any = getattr(mlir, "make_ir_context", None)  # what conftest.py has put there
pytestmark = pytest.mark.skipif(makes is None, reason="this JAX makes its contexts by another function")


def lowered(power: int) -> Any:
    return jax.jit(lambda x: jnp.max(jax.nn.softmax(x**power) + 1.5)).lower(jnp.ones(3))


def context_of(power: int) -> object:
    return lowered(power).compiler_ir("stablehlo").context


def test_lowerings_of_a_thread_share_a_context() -> None:
    found = [context_of(power) for power in (3, 4, 5)]
    assert found[0] is found[1] or found[1] is found[2]  # one of them may be the first of another context
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(context_of, 6).result() not in found


def test_a_context_is_for_so_many_lowerings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "make_ir_context", makes.__wrapped__)
    monkeypatch.setattr(lowering, "LOWERINGS", 3)
    lowering.share_contexts()
    found = [mlir.make_ir_context() for _ in range(7)]
    assert [found.index(one) for one in found] == [0, 0, 0, 3, 3, 3, 6]


def test_what_is_lowered_is_the_same_in_a_context_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [lowered(power).as_text(debug_info=True) for power in (3, 4)]
    monkeypatch.setattr(mlir, "make_ir_context", makes.__wrapped__)
    assert [lowered(power).as_text(debug_info=True) for power in (3, 4)] == shared
