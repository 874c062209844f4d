"""Tables of TOML files: what stands under a key, and errors that name the file and the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simdist.errors import InvalidArgumentError, NotFoundError
from simdist.launcher.toml_table import TomlTable, read_toml


def table(**values: Any) -> TomlTable:
    return TomlTable("c.toml", "", values)


def test_value_of_a_key_and_of_a_missing_one() -> None:
    found = table(a="x", n=3, s=1, w="yes")
    assert (found.text("a"), found.text("b"), found.text("b", "y")) == ("x", None, "y")
    assert (found.whole_number("n", 0), found.whole_number("m", 7)) == (3, 7)
    assert (found.seconds("s", None), found.seconds("t", None)) == (1.0, None)
    assert (found.word("w", "no", ("yes", "no")), found.word("v", "no", ("yes", "no"))) == ("yes", "no")


@pytest.mark.parametrize(
    ("ask", "value", "message"),
    [
        (lambda t: t.text("k"), 5, "c.toml: k is 5; expected text."),
        (lambda t: t.text("k"), "", "c.toml: k is ''; expected text."),
        (lambda t: t.whole_number("k", 0), True, "c.toml: k is True; expected a whole number."),
        (lambda t: t.whole_number("k", 0), 1.0, "c.toml: k is 1.0; expected a whole number."),
        (lambda t: t.seconds("k", 0.0), -1, "c.toml: k is -1; expected a number of seconds, 0 or more, and less than 1e+15."),
        (lambda t: t.seconds("k", 0.0), float("nan"), "c.toml: k is nan; expected a number of seconds, 0 or more, and less than 1e+15."),
        (
            lambda t: t.seconds("k", 0.0),
            1e15,
            "c.toml: k is 1000000000000000.0; expected a number of seconds, 0 or more, and less than 1e+15.",
        ),
        (lambda t: t.seconds("k", 0.0), float("inf"), "c.toml: k is inf; expected a number of seconds, 0 or more, and less than 1e+15."),
        (lambda t: t.word("k", "a", ("a", "b")), "c", "c.toml: k is 'c'; expected one of 'a', 'b'."),
        (lambda t: t.word("k", "a", ("a", "b")), [1], "c.toml: k is [1]; expected one of 'a', 'b'."),
        (lambda t: t.table("k"), [1], "c.toml: k is [1]; expected a table, written as [k]."),
        (lambda t: t.tables("k"), {"a": 1}, "c.toml: k is {'a': 1}; expected a list of tables, each written as [[k]]."),
        (lambda t: t.tables("k"), [1], "c.toml: k is [1]; expected a list of tables, each written as [[k]]."),
    ],
)
def test_wrong_value_names_file_key_and_what_was_expected(ask: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ask(table(k=value))
    assert str(caught.value) == message


def test_keys_of_inner_tables_are_named_in_full() -> None:
    inner = table(a={"b": {"c": 1}}).table("a").table("b")
    with pytest.raises(InvalidArgumentError, match=r"c\.toml: a\.b\.c is 1; expected text\."):
        inner.text("c")
    second = table(a=[{}, {"x": 1}]).tables("a")[1]
    with pytest.raises(InvalidArgumentError, match=r"c\.toml: a\[1\]\.x is 1"):
        second.text("x")


def test_unknown_key_names_its_table_and_the_nearest_known_one() -> None:
    with pytest.raises(InvalidArgumentError, match=r"c\.toml: the key 'sed' is not known\. Did you mean 'seed'\?"):
        table(sed=1).require_known(["seed", "jobs"])
    with pytest.raises(InvalidArgumentError, match=r"the key 'b' in \[a\] is not known"):
        table(a={"b": 1}).table("a").require_known(["c"])


def test_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    with pytest.raises(NotFoundError, match=r"There is no file .*c\.toml"):
        read_toml(path)
    with pytest.raises(NotFoundError, match=r"is a folder\. Give the path of a TOML file .*cluster\.toml"):
        read_toml(tmp_path)
    path.write_text("seed = 0\nrestart = always\n")
    with pytest.raises(InvalidArgumentError, match=r"c\.toml is not TOML: .*line 2"):
        read_toml(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgumentError, match=r"c\.toml is not TOML: .*utf-8"):
        read_toml(path)
