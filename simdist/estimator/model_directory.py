"""The directory of an Estimator: where its checkpoints and event files lie, which all its calls have in common."""

from __future__ import annotations

import logging
import os
import tempfile

from simdist.errors import InvalidArgumentError
from simdist.estimator.run_config import RunConfig

__all__ = ["with_directory"]

log = logging.getLogger("simdist")


def with_directory(config: RunConfig, model_dir: str | os.PathLike[str] | None) -> RunConfig:
    """The options with a directory: the given one, that of the options, or of a program alone a new temporary one.

    Raises:
        InvalidArgumentError: the two differ, or tasks of a cluster have none.
    """
    given = None if model_dir is None else os.fspath(model_dir)
    if given and config.model_dir and given != config.model_dir:
        raise InvalidArgumentError(f"model_dir={given!r}, but the RunConfig has model_dir={config.model_dir!r}. Give one of them.")
    if given is not None or config.model_dir is not None:
        return config.replace(model_dir=config.model_dir if given is None else given)
    if config.cluster_spec or config.task_type == "evaluator":
        raise InvalidArgumentError(
            "model_dir is missing, and the tasks of a cluster find each other's checkpoints there. Give one that all share, for example "
            "cluster.directory('model')."
        )
    temporary = tempfile.mkdtemp(prefix="simdist-estimator-")
    log.warning("The Estimator saves to the temporary directory %s; model_dir= names another.", temporary)
    return config.replace(model_dir=temporary)
