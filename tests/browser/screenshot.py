"""Takes a picture of a lesson in its whole length, run from top to bottom in a real JupyterLab.

python tests/browser/screenshot.py lessons/00_one_cell.ipynb picture.png
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lab_driver import Notebook, browser_page, copy_cleared, lab_server


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status: 1 when a cell failed."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    lesson, picture = map(Path, arguments)
    with tempfile.TemporaryDirectory() as folder:
        copy_cleared(lesson, Path(folder))
        with lab_server(Path(folder)) as address, browser_page() as page:
            notebook = Notebook(page, address, lesson.name)
            errors = [error for cell in notebook.run_all() for error in cell.errors]
            drawn = notebook.widgets_drawn()
            files = notebook.screenshot(picture)
    print(f"wrote {', '.join(map(str, files))}")
    print(f"widgets drawn: {sum(drawn)} of {len(drawn)}; errors: {errors or 'none'}")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
