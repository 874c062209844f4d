"""What a variable is called, and which types it takes for its options."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd


def test_a_variable_has_the_name_that_it_is_given_or_that_of_its_kind() -> None:
    assert (sd.Variable(1.0, name="v").name, sd.Variable(1.0).name, sd.Variable(1.0, name="").name) == ("v", "Variable", "")


@pytest.mark.parametrize("name", [3, b"v", ["v"]])
def test_a_name_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(TypeError, match=r"the name of a variable is .*; expected text"):
        sd.Variable(1.0, name=name)
