"""Opens the student's copies of the lessons in JupyterLab; `make lab` and `python -m simdist lessons` call it.

python lessons/open_lab.py [--folder my_lessons] [options of JupyterLab]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from index_page import FILE as INDEX
from working_copies import FOLDER, bring_up_to_date

from simdist.compilation_cache import switch_on
from simdist.errors import SimdistError

LESSONS = Path(__file__).resolve().parent
SETTINGS = LESSONS.parent / ".ci" / "lab_settings"
EXTENSIONS = LESSONS.parent / ".ci" / "lab_extensions"


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status, that of JupyterLab in the end."""
    parser = argparse.ArgumentParser(description="Open working copies of the lessons in JupyterLab.", allow_abbrev=False)
    parser.add_argument("--folder", type=_folder, default=LESSONS.parent / FOLDER, help=f"of the copies (default {FOLDER})")
    options, of_lab = parser.parse_known_args(arguments)
    folder = options.folder.resolve()
    try:
        lines = bring_up_to_date(LESSONS, folder)
    except (OSError, SimdistError) as error:
        print(f"The copies of the lessons cannot be written into {folder}: {error}", file=sys.stderr)
        print('Give a folder that you may write: make lab LAB_FLAGS="--folder ~/my_lessons"', file=sys.stderr)
        return 1
    for line in lines:
        print(line, flush=True)
    switch_on()
    given = {word.partition("=")[0] for word in of_lab}
    options_of_lab = [option for option in lab_options(folder) if option.partition("=")[0] not in given]
    return subprocess.call([sys.executable, "-m", "jupyter", "lab", *options_of_lab, *of_lab])


def _folder(text: str) -> Path:
    """The folder of a word of the command line.

    Raises:
        argparse.ArgumentTypeError: an empty word, as of a shell's variable that is not set, which would be the current folder; or the home
            of a user that is not known.
    """
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give a folder, such as ~/my_lessons")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"{text} begins with the home of a user that is not known here; give another folder") from None


def lab_options(folder: Path) -> list[str]:
    """JupyterLab's options: its root, the page with which it opens, our settings, and nothing that asks for the network."""
    options = {
        "ServerApp.root_dir": folder,
        "LabApp.default_url": f"/lab/tree/{INDEX}",
        "LabApp.app_settings_dir": SETTINGS,
        "LabApp.extra_labextensions_path": EXTENSIONS,
        "LabApp.news_url": None,
        "LabApp.check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
    }
    return [f"--{name}={value}" for name, value in options.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
