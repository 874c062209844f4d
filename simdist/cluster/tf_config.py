"""The environment variable ``TF_CONFIG``: it describes the cluster and the task's own job and index.

The variable holds a JSON object with the keys ``cluster`` (job -> tasks), ``task`` (``type`` and ``index``) and,
seldom, ``rpc_layer``, ``environment`` and ``session_master``. All of them may be missing; a process without the
variable is alone.

Invariants: the variable is read anew at each call and never written, and what is returned has been checked:
the task is one of the cluster, unless it is an evaluator (which is not part of it) or there is no cluster.

Taught in lesson 04.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from simdist.cluster.resolver import ClusterResolver, Found, checked_id, checked_text, checked_type
from simdist.cluster.spec import MOST_DIGITS, ClusterSpec
from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = ["MalformedJSONError", "TFConfig", "TFConfigClusterResolver", "read_tf_config"]

VARIABLE = "TF_CONFIG"
EXAMPLE = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
SHOWN = 200  # characters of a wrong value that a message repeats


class MalformedJSONError(InvalidArgumentError, json.JSONDecodeError):
    """Text that should be JSON is not; it can be caught as the error of the json module, too."""

    def __init__(self, msg: str, doc: str, pos: int) -> None:
        json.JSONDecodeError.__init__(self, msg, doc, pos)
        self.args = (msg,)


@dataclass(frozen=True)
class TFConfig:
    """What ``TF_CONFIG`` says; a field that it leaves out is None or empty.

    Attributes:
        content: the whole JSON object, for keys that only some programs use.
    """

    cluster: ClusterSpec
    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str = ""
    session_master: str | None = None
    content: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)


def read_tf_config() -> TFConfig:
    """The checked content of ``TF_CONFIG`` at this moment.

    Returns:
        The cluster and the task; an empty cluster and no task where the variable is missing or empty.

    Raises:
        InvalidArgumentError: if the variable is no JSON object, or describes a cluster or a task that cannot be.

    Example:
        >>> os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
        >>> config = read_tf_config()
        >>> config.task_type, config.task_id, config.cluster.jobs
        ('worker', 1, ['worker'])
        >>> del os.environ["TF_CONFIG"]
    """
    text = os.environ.get(VARIABLE, "").strip()
    config = _json_object(text or "{}")
    cluster = _cluster(config.get("cluster"))
    task_type, task_id = _task(config.get("task"))
    _check_member(cluster, task_type, task_id)
    return TFConfig(
        cluster,
        task_type,
        task_id,
        _text(config, "rpc_layer"),
        _text(config, "environment") or "",
        _text(config, "session_master"),
        config,
    )


class TFConfigClusterResolver(ClusterResolver):
    """The cluster that the environment variable ``TF_CONFIG`` describes, read anew at each access.

    Args:
        task_type: used instead of the variable's task type.
        task_id: used instead of the variable's task index.
        rpc_layer: used instead of the variable's ``rpc_layer``.
        environment: used instead of the variable's ``environment``.

    Raises:
        InvalidArgumentError: at an access, if the variable is not usable; the message shows one that is.

    Example:
        >>> import os
        >>> os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
        >>> resolver = TFConfigClusterResolver()
        >>> resolver.task_type, resolver.task_id, resolver.master()
        ('worker', 1, 'b:1')
        >>> del os.environ["TF_CONFIG"]
        >>> resolver.task_type is None
        True
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type = checked_type(task_type)
        self._task_id = checked_id(task_id)
        self._rpc_layer = checked_text(rpc_layer, "rpc_layer")
        self._environment = checked_text(environment, "environment")

    def cluster_spec(self) -> ClusterSpec:
        """The cluster of the variable, empty where there is none."""
        return read_tf_config().cluster

    def found(self) -> Found:
        """The task of the variable."""
        config = read_tf_config()
        return Found(config.task_type, config.task_id, config.rpc_layer, config.environment)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The variable's ``session_master``, ``""`` in a cluster of one task, else the address of a task."""
        config = read_tf_config()
        if config.session_master is not None:
            return config.session_master
        address = super().master(task_type, task_id, rpc_layer)
        # A cluster of one task is a local process: it has no peer.
        return "" if sum(map(config.cluster.num_tasks, config.cluster.jobs)) <= 1 else address


def _wrong(problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{VARIABLE}: {problem}. A right value is: {EXAMPLE}")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists within lists within lists
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        config = json.loads(text, object_pairs_hook=_without_repetition)
    except json.JSONDecodeError as error:
        raise MalformedJSONError(
            f"{VARIABLE} is not JSON ({error}): {_shown(text)}. Keys and text need double quotes. A right value is: {EXAMPLE}",
            error.doc,
            error.pos,
        ) from error
    except RecursionError:
        raise _wrong("it is nested too deeply") from None
    except InvalidArgumentError:
        raise
    except ValueError:
        raise _wrong("a number in it has thousands of digits") from None
    if not isinstance(config, dict):
        raise _wrong(f"it must be a JSON object, found {_shown(config)}")
    return cast("dict[str, Any]", config)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key that stands twice is refused, because it has two values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _wrong(f"the key {_shown(next(key for key in keys if keys.count(key) > 1))} stands twice in one object")
    return found


def _cluster(found: object) -> ClusterSpec:
    if found is None:
        return ClusterSpec({})
    try:
        return ClusterSpec(cast("Any", found))
    except (TypeError, InvalidArgumentError) as error:
        raise _wrong(f"'cluster' is not usable: {str(error).rstrip('.')}") from error


def _task(found: object) -> tuple[str | None, int | None]:
    if found is None:
        return None, None
    if not isinstance(found, dict):
        raise _wrong(f"'task' must be an object with 'type' and 'index', found {_shown(found)}")
    task = cast("dict[str, Any]", found)
    task_type, index = task.get("type"), task.get("index")
    if task_type is not None and not isinstance(task_type, str):
        raise _wrong(f"the task's 'type' must be text, found {_shown(task_type)}")
    return task_type, None if index is None else _index(index)


def _index(found: object) -> int:
    # Some launchers write numbers as text.
    if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) <= MOST_DIGITS:
        return int(found)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise _wrong(f"the task's 'index' must be a whole number from 0 on, found {_shown(found)}")
    return found


def _text(config: Mapping[str, Any], key: str) -> str | None:
    found = config.get(key)
    if found is not None and not isinstance(found, str):
        raise _wrong(f"{key!r} must be text, found {_shown(found)}")
    return found


def _check_member(cluster: ClusterSpec, task_type: str | None, task_id: int | None) -> None:
    if not cluster or task_type is None or (task_type == "evaluator" and task_type not in cluster):
        return
    if task_type not in cluster:
        known = did_you_mean(task_type, cluster.jobs).rstrip(".")
        raise _wrong(f"the task's type {task_type!r} is not a job of 'cluster'. {known}")
    indices = cluster.task_indices(task_type)
    if task_id is not None and task_id not in indices:
        raise _wrong(f"the task's index {task_id} is not in job {task_type!r}, which has the indices {indices}")
