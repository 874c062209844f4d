"""Event files of an Estimator: losses and speeds of its training, results of its evaluations; TensorBoard shows them.

The wall time of a value is the virtual second. Without the package ``tensorboard`` nothing is written, and a line in the log says so once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from simdist.trace.event_file import EventFile, Scalar

__all__ = ["Summaries"]

log = logging.getLogger("simdist")
_has_warned: list[bool] = []


class Summaries:
    """A new event file in a directory, from the first value on.

    Args:
        directory: where.
        writes: whether this program is the one that writes.

    Example:
        >>> import tempfile
        >>> directory = tempfile.mkdtemp()
        >>> Summaries(directory).write(10, 0.5, {"loss": 2.0})
        >>> [path.name for path in Path(directory).iterdir()]
        ['events.out.tfevents.0000000000.simdist']
    """

    def __init__(self, directory: str, writes: bool = True) -> None:
        self._file: EventFile | None = None
        if not writes:
            return
        try:
            self._file = EventFile(Path(directory))
        except ModuleNotFoundError as error:
            if not _has_warned:
                _has_warned.append(True)
                log.warning("An Estimator writes no event files: %s", error)

    def write(self, step: int, now_s: float, values: Mapping[str, object]) -> None:
        """Write those values that are single numbers.

        Args:
            step: of all of them.
            now_s: the virtual second.
            values: by tag.
        """
        if self._file is not None:
            arrays = {tag: np.asarray(value) for tag, value in values.items()}
            numbers = {tag: float(array) for tag, array in arrays.items() if array.ndim == 0 and array.dtype.kind in "biuf"}
            self._file.append([Scalar(tag, step, now_s, value) for tag, value in numbers.items()])
