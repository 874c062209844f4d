"""What every test stands on: JAX on the CPU, Keras on JAX, and property tests that are the same on every run.

Variables of the environment are set here, before anything imports JAX or Keras.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# What is imported and collected stays until the end: the collector need not look at it, which takes a fifth of that time.
gc.disable()

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what XLA's C++ side logs is about the machine, not the code
os.environ.setdefault("MPLBACKEND", "agg")
# jsonschema, which comes with nbformat, can do without: to build a grammar of web addresses takes seconds, and notebooks have none.
sys.modules.setdefault("rfc3987_syntax", None)  # pyright: ignore[reportArgumentType]
# Which lines of Python an operation comes from is for debuggers; to write it down takes a quarter of the time of a first step.
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# A shell starts what runs in its background with Ctrl-C ignored; the tests of interruptions need Python's handler there, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What XLA compiles is kept for the next run, and for the processes that tests start. This import loads JAX.
from quick_jax import quicken  # noqa: E402
from sampling import USUAL_EXAMPLES, mark_the_rest  # noqa: E402
from simdist.compilation_cache import switch_on  # noqa: E402

switch_on()
quicken()

# Folders of tests that compare bits, of a few replicas, as those of many are computed.
IN_A_LOOP = ("ledger", "program", "properties")
# So many files of tests between two times that what they have left is taken out of collection: each collection in a test searches the rest.
FILES_BETWEEN = 5
files = count(1)

# `ci` (the default) tries the same examples on every run; `explore` searches for new ones:
#     HYPOTHESIS_PROFILE=explore pytest tests/properties
common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("ci", common, derandomize=True, max_examples=USUAL_EXAMPLES, database=None)
settings.register_profile("explore", common, derandomize=False, max_examples=2_000)  # hypothesis has fixed seeds where CI is set
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def no_seed_of_keras() -> Iterator[None]:
    """Let no test have the seed of Keras that another one has set."""
    yield
    state = sys.modules.get("keras.src.backend.common.global_state")
    if state is not None:
        state.set_global_attribute("global_random_seed", None)


@pytest.fixture(scope="module", autouse=True)
def kept_from_collections(request: pytest.FixtureRequest) -> None:
    """Collect once what the files before have left, and let later collections not search what is still there: caches of JAX and Keras.

    So it is before each file that collects garbage itself: its passes look at what is new. What was kept is not given back to
    the collector afterwards: the next pass would be one over all that the tests before have left, which takes seconds.
    """
    if next(files) % FILES_BETWEEN == 0 or hasattr(request.module, "gc"):
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def few_replicas_in_a_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let tests that compare bits put the calls of two or three replicas into a loop, as those of more are."""
    if request.path.parent.name not in IN_A_LOOP:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simdist.ledger.equal_calls.FEW_LANES", 1)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """Tests have no examples in docstrings, and to look for them in all their files takes seconds."""
    found = yield
    return [one for one in found if "Doctest" not in type(one).__name__]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what CI does not try of samples, before `-m` chooses."""
    mark_the_rest(item for item in items if isinstance(item, pytest.Function))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
