"""What a variable is called."""

from __future__ import annotations

import simdist as sd


def test_a_variable_has_the_name_that_it_is_given_or_that_of_its_kind() -> None:
    assert (sd.Variable(1.0, name="v").name, sd.Variable(1.0).name, sd.Variable(1.0, name="").name) == ("v", "Variable", "")
