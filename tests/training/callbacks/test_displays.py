"""Where progress is shown: terminals, notebooks and files; and nowhere where outputs are compared."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

from simdist.training.callbacks import displays
from simdist.training.callbacks.displays import Notebook, Nothing, Plain, Terminal, display_here


class Screen(io.StringIO):
    """A terminal, as far as a program asks."""

    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """What is seen on it."""
        found: list[str] = []
        for row in self.getvalue().split("\n"):
            seen = ""
            for part in row.split("\r"):
                seen = part + seen[len(part) :]
            found.append(seen.rstrip())
        return found


def test_a_line_of_a_terminal_is_written_over_and_a_last_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    terminal = Terminal(columns=lambda: 12)
    for line in ("one of ten steps", "ten", "eleven"):
        terminal.show(line)
    assert screen.rows() == ["eleven"]
    terminal.end("a long line with all results")
    terminal.show("next")
    assert screen.rows() == ["a long line with all results", "next"]
    assert "one of ten " in screen.getvalue() and "one of ten s" not in screen.getvalue()


def test_a_notebook_has_one_output_that_is_updated() -> None:
    made: list[str] = []

    class Handle:
        def update(self, content: dict[str, str], raw: bool) -> None:
            made.append(content["text/plain"])

    def display(content: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert not made
        made.append(content["text/plain"])
        return Handle()

    notebook = Notebook(display)
    notebook.show("1/2")
    notebook.end("first")
    notebook.show("2/2")
    assert made == ["1/2", "first", "first\n2/2"]


def test_the_place_and_verbose_choose_the_display(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(verbose: int, alone: bool = True) -> type:
        return type(display_here(verbose, alone, {}))

    assert [kind(verbose) for verbose in (0, 1, 2)] == [Nothing, Plain, Plain]
    monkeypatch.setattr(sys, "stdout", Screen())
    assert [kind(verbose) for verbose in (0, 1, 2)] == [Nothing, Terminal, Plain]
    assert kind(1, alone=False) is Plain
    monkeypatch.setattr(Screen, "__module__", "ipykernel.iostream")
    assert [kind(verbose) for verbose in (0, 1, 2)] == [Nothing, Notebook, Plain]
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(displays, "_is_kernel", lambda: True)
    assert kind(1) is Plain
    for name, value in (("SIMDIST_STATIC_PICTURES", "1"), ("PYTEST_VERSION", "9"), ("PYTEST_CURRENT_TEST", "x (setup)")):
        assert {type(display_here(verbose, True, {name: value})) for verbose in (0, 1, 2)} == {Nothing}


def test_without_interactive_logging_nothing_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Screen())
    keras.config.disable_interactive_logging()
    try:
        assert isinstance(display_here(1, True, {}), Plain)
    finally:
        keras.config.enable_interactive_logging()


PROGRAM = """
import numpy as np
import simdist as sd
from simdist import keras
with sd.MirroredStrategy(2).scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
history = model.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=2, epochs=3)
"""


IN_A_MAIN = """
def main():
    with sd.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=2, verbose=2)
sd.Cluster({"worker": 2}).launch(main).join()
"""


def notebook(*more: str) -> Any:
    import nbformat  # takes seconds, and the other tests need none of it

    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (PROGRAM, IN_A_MAIN, *more)])


UNDER_PYTEST = """
import os
os.environ["PYTEST_VERSION"] = "9"  # as in a kernel that nbval has started
history = model.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=2)
"""


@pytest.mark.slow
def test_a_real_notebook_shows_all_epochs_in_one_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_VERSION", "PYTEST_CURRENT_TEST", "SIMDIST_STATIC_PICTURES"):
        monkeypatch.delenv(name, raising=False)
    import nbclient

    alone, in_mains, under_pytest = nbclient.NotebookClient(notebook(UNDER_PYTEST), timeout=120, kernel_name="python3").execute().cells
    outputs = alone.outputs
    assert [output.output_type for output in outputs] == ["display_data"]
    assert [line.split(" - ")[:2] for line in outputs[0].data["text/plain"].splitlines()] == [
        [f"Epoch {epoch}/3", "4/4 steps"] for epoch in (1, 2, 3)
    ]
    printed = "".join(output.text for output in in_mains.outputs)
    assert [printed.count(f"[worker:{worker}] Epoch 1/1 - 4/4 steps") for worker in (0, 1)] == [1, 1]
    assert under_pytest.outputs == []


@pytest.mark.exhaustive  # CI tries a kernel that has the variable of pytest, above
def test_nbval_sees_no_progress(tmp_path: Path) -> None:
    import nbformat

    nbformat.write(notebook(), tmp_path / "fit.ipynb")  # its cells have no outputs
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", str(tmp_path / "fit.ipynb")]
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode == 0
