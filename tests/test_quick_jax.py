"""What JAX does once in tests: lowerings of a thread share a context for a while, files of frames are looked up once; no result changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax._src import traceback_util
from jax._src.interpreters import mlir

import quick_jax

makes: Any = getattr(mlir, "make_ir_context", None)  # what conftest.py has put there
needs_contexts = pytest.mark.skipif(
    makes is None or quick_jax.KEEPS_CONTEXTS, reason="this JAX keeps its contexts by itself, or makes them elsewhere"
)


def lowered(power: int) -> Any:
    return jax.jit(lambda x: jnp.max(jax.nn.softmax(x**power) + 1.5)).lower(jnp.ones(3))


def context_of(power: int) -> object:
    return lowered(power).compiler_ir("stablehlo").context


@needs_contexts
def test_lowerings_of_a_thread_share_a_context() -> None:
    found = [context_of(power) for power in (3, 4, 5)]
    assert found[0] is found[1] or found[1] is found[2]  # one of them may be the first of another context
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(context_of, 6).result() not in found


@needs_contexts
def test_a_context_is_for_so_many_lowerings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_jax, "LOWERINGS", 3)
    monkeypatch.setattr(mlir, "make_ir_context", quick_jax._shared(makes.__wrapped__))
    found = [mlir.make_ir_context() for _ in range(7)]
    assert [found.index(one) for one in found] == [0, 0, 0, 3, 3, 3, 6]


@needs_contexts
def test_a_lowering_inside_of_another_one_has_a_context_of_its_own() -> None:
    with mlir.make_ir_context() as outer:
        assert mlir.make_ir_context() is not outer


@needs_contexts
def test_what_is_lowered_is_the_same_in_a_context_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = [lowered(power).as_text(debug_info=True) for power in (3, 4)]
    monkeypatch.setattr(mlir, "make_ir_context", makes.__wrapped__)
    assert [lowered(power).as_text(debug_info=True) for power in (3, 4)] == shared


@pytest.mark.skipif(not hasattr(traceback_util, "_path_starts_with"), reason="this JAX tells frames of its own by another function")
def test_a_traceback_has_the_frames_that_it_has_with_every_file_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def frames() -> list[str]:
        with pytest.raises(TypeError) as raised:
            jax.jit(lambda x: jnp.reshape(x, (2, 3)))(1.0)
        return [entry.name for entry in raised.traceback]

    first, again = frames(), frames()
    looks_up: Any = traceback_util._path_starts_with
    assert looks_up.cache_info().hits > 0
    monkeypatch.setattr(traceback_util, "_path_starts_with", looks_up.__wrapped__)
    assert first == again == frames()
