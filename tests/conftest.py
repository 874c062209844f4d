"""What every test stands on: JAX on the CPU, Keras on JAX, and property tests that are the same on every run.

Variables of the environment are set here, before anything imports JAX or Keras.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what XLA's C++ side logs is about the machine, not the code
os.environ.setdefault("MPLBACKEND", "agg")
# Which lines of Python an operation comes from is for debuggers; to write it down takes a quarter of the time of a first step.
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# What XLA compiles is kept for the next run, and for the processes that tests start. This import loads JAX.
from simdist.compilation_cache import switch_on

switch_on()

# `ci` (the default) tries the same examples on every run; `explore` searches for new ones:
#     HYPOTHESIS_PROFILE=explore pytest tests/properties
common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("ci", common, derandomize=True, max_examples=50, database=None)
settings.register_profile("explore", common, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
