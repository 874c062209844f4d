"""Seeds of what Keras makes without one: from the seed that was set, from the stream of a task, or from the strategy whose scope is open.

Elsewhere Keras draws as it always does. Each task counts for itself how many were drawn from a seed that was set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import keras
from keras.src.backend.common import global_state
from keras.src.backend.jax import random as jax_random
from keras.src.random import seed_generator
from keras.src.utils import rng_utils

from simdist.process_state import active_context, current_seed
from simdist.program.scope import chosen_scope
from simdist.randomness import derive_seed

__all__ = ["install"]

SEEDS_DRAWN = "simdist_seeds_drawn"
"""Where Keras' state, which each task has for itself, keeps how many seeds were drawn since ``keras.utils.set_random_seed``."""


def _seed_of_task(original: Callable[[], int] = seed_generator.make_default_seed) -> int:
    """An unseeded initialiser draws from the seed that its task has set; else from the task's stream, or from the chosen scope."""
    given, scope = rng_utils.get_random_seed(), chosen_scope()
    if given is not None and (scope is not None or active_context().seeds is not None):
        drawn = 1 + (global_state.get_global_attribute(SEEDS_DRAWN) or 0)
        global_state.set_global_attribute(SEEDS_DRAWN, drawn)
        return 1 + derive_seed(given, "keras", drawn) % 1_000_000_000
    seed = current_seed(None if scope is None else scope.seeding_task)
    if seed is None and scope is not None:
        seed = scope.next_seed()
    return original() if seed is None else seed


def _set_random_seed(seed: int, original: Callable[[int], None] = rng_utils.set_random_seed) -> None:
    original(seed)
    global_state.set_global_attribute(SEEDS_DRAWN, 0)


def install() -> None:
    """Let Keras draw the seeds of its layers by these rules. To be called once."""
    seed_generator.make_default_seed = _seed_of_task
    jax_random.make_default_seed = _seed_of_task
    rng_utils.set_random_seed = keras.utils.set_random_seed = wraps(rng_utils.set_random_seed)(_set_random_seed)
