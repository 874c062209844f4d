"""The collector rests during imports, and is afterwards as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from simdist.quick_imports import without_collector


@pytest.fixture(params=[True, False])
def was_enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_the_collector_rests_and_is_then_as_it_was(was_enabled: bool) -> None:
    with without_collector():
        assert not gc.isenabled()
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == was_enabled


def test_also_after_an_import_that_fails(was_enabled: bool) -> None:
    with pytest.raises(ModuleNotFoundError), without_collector():
        raise ModuleNotFoundError("a library")
    assert gc.isenabled() == was_enabled
