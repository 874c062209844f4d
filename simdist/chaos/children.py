"""Child processes that examine blocks of scenarios: they bound memory, and can be ended when one of them hangs."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from simdist.chaos.block import Examined, Request
from simdist.chaos.scenarios import Options, Scenario

__all__ = ["Hung", "examined_in_a_child", "shrunk_in_a_child"]


class Hung(Exception):
    """A scenario that did not end.

    Args:
        number: of the scenario; -1 where none had begun.
        why: in words.
    """

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


def examined_in_a_child(request: Request, hash_seed: int, limit_s: float) -> Iterator[Examined]:
    """Examine the scenarios of a request in another process.

    Args:
        request: which.
        hash_seed: PYTHONHASHSEED of that process.
        limit_s: seconds of real time that a scenario may take.

    Raises:
        Hung: a scenario took longer, or ended the process; what came before it has been given already.
    """
    number = -1
    for line in _lines(asdict(request), hash_seed, limit_s):
        if line is None:
            raise Hung(number, f"it did not end within {limit_s:g} s of real time")
        if "ended" in line:
            if line["ended"]:
                raise Hung(number, f"its process ended with status {line['ended']}: {line['why']}")
        elif "begins" in line:
            number = line["begins"]
        else:
            yield Examined.from_json(line)


def shrunk_in_a_child(scenario: Scenario, invariant: str, limit_s: float) -> Scenario:
    """The smallest scenario found that breaks an invariant; the scenario itself where the search hangs."""
    request = {"shrink": scenario.to_json(), "invariant": invariant, "limit_s": limit_s}
    for line in _lines(request, hash_seed=1, limit_s=3 * limit_s + 60.0):
        if line is not None and "small" in line:
            return Scenario.from_json(line["small"])
    return scenario


def _lines(request: Options, hash_seed: int, limit_s: float) -> Iterator[Options | None]:
    """What a child writes, and at last how it ended; None when it is silent for too long."""
    environ = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-m", "simdist.chaos.block"]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        lines: queue.Queue[str | None] = queue.Queue()
        errors: list[str] = []
        threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
        threading.Thread(target=lambda stream: errors.extend(stream), args=(child.stderr,), daemon=True).start()
        child.stdin.write(json.dumps(request))
        child.stdin.close()
        try:
            while (line := lines.get(timeout=limit_s)) is not None:
                if line.startswith("{"):
                    yield json.loads(line)
            yield {"ended": child.wait(), "why": "".join(errors[-3:]).strip()}
        except queue.Empty:
            yield None
        finally:
            if child.poll() is None:
                child.kill()


def _read(stream: Iterable[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)
