"""What `value_and_grad` takes."""

from __future__ import annotations

import pytest

import simdist as sd


@pytest.mark.parametrize("values", [2.0, [1.0, 2.0]], ids=["scalar", "vector"])
def test_a_single_variable_instead_of_a_list_is_refused_in_these_words(values: object) -> None:
    variable = sd.Variable(values)
    with pytest.raises(TypeError, match="takes a list of variables"):
        sd.value_and_grad(lambda: variable.value, variable)  # pyright: ignore[reportArgumentType]


def test_what_is_no_function_has_no_gradient() -> None:
    variable = sd.Variable(1.0)
    with pytest.raises(TypeError, match="takes a function that returns a scalar; got float"):
        sd.value_and_grad(2.0, [variable])  # pyright: ignore[reportArgumentType]
