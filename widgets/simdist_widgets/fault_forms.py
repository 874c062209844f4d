"""The kinds of faults as forms: what each parameter takes, from its declaration, so that a new kind appears by itself.

Taught in lesson 12.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Any

from simdist.faults.base import KINDS
from simdist.faults.parameters import Choice, Number, Parameter
from simdist.runtime.cluster import Cluster

__all__ = ["fault_forms", "presets", "trigger_forms"]


def fault_forms() -> list[dict[str, Any]]:
    """All kinds of the registry with their parameters, JSON-able.

    Example:
        >>> [parameter["name"] for form in fault_forms() if form["kind"] == "crash" for parameter in form["parameters"]]
        ['task', 'restart_after', 'keep_disk']
    """
    return [{"kind": kind, "says": _first_sentence(cls), "parameters": _parameters(cls)} for kind, cls in sorted(KINDS.items())]


def trigger_forms() -> list[dict[str, Any]]:
    """When a fault may begin: at a virtual second, or after steps of its task; neither: now."""
    return [
        _form("at", Number(says="the virtual second; nothing: now", unit="s", optional=True, at_least=0.0), None),
        _form("after_steps", Number(says="so many steps of its task", optional=True, at_least=1, whole=True), None),
    ]


def presets(cluster: Cluster) -> list[dict[str, Any]]:
    """Faults by names that people use, for the tasks that a cluster has.

    Example:
        >>> import simdist as sd
        >>> [preset["name"] for preset in presets(sd.Cluster({"worker": 2, "ps": 1}))][:2]
        ['pause a worker for 6 s', 'crash a worker, back at once']
    """
    workers = [name for name in cluster.tasks if name.startswith("worker")]
    servers = [name for name in cluster.tasks if name.startswith("ps")]
    found: list[dict[str, Any]] = []

    def add(name: str, *faults: dict[str, Any]) -> None:
        found.append({"name": name, "faults": list(faults)})

    if workers:
        last = workers[-1]
        add("pause a worker for 6 s", {"kind": "pause", "task": last, "for": 6.0})
        add("crash a worker, back at once", {"kind": "crash", "task": last, "restart_after": 0.001})
        add("lose a worker's machine", {"kind": "lose_host", "task": last})
        add("slow worker", {"kind": "slow", "task": last, "factor": 4.0})
    if len(workers) > 1:
        half = len(workers) // 2
        add("split the workers", {"kind": "partition", "a": workers[:half], "b": workers[half:], "for": 6.0})
    if servers:
        add(f"lose {servers[0]} at step 40", {"kind": "crash", "task": servers[0], "after_steps": 40})
        add("half of the replies are lost", {"kind": "drop", "source": servers[0], "target": workers or ["chief:0"], "probability": 0.5})
    racks = _last_rack(cluster)
    if racks:
        add("slow rack", *({"kind": "slow", "task": name, "factor": 3.0} for name in racks))
    return found


def _last_rack(cluster: Cluster) -> list[str]:
    size = getattr(cluster.network.topology, "tasks_per_rack", 0)
    return cluster.tasks[(len(cluster.tasks) - 1) // size * size :] if size and size < len(cluster.tasks) else []


def _parameters(cls: type[Any]) -> list[dict[str, Any]]:
    defaults = {item.name: None if item.default is MISSING else item.default for item in fields(cls)}
    required = {item.name for item in fields(cls) if item.default is MISSING}
    ordered = sorted(cls.parameters().items(), key=lambda item: item[0] not in required)
    return [_form(name, parameter, defaults[name], name in required) for name, parameter in ordered]


def _form(name: str, parameter: Parameter, default: Any, required: bool = False) -> dict[str, Any]:
    form: dict[str, Any] = {
        "name": name,
        "says": parameter.says,
        "unit": parameter.unit,
        "type": parameter.type,
        "optional": parameter.optional,
        "required": required,
        "default": list(default) if isinstance(default, tuple) else default,
        "choices": list(parameter.choices) if isinstance(parameter, Choice) else [],
    }
    if isinstance(parameter, Number):
        limits = {limit: getattr(parameter, limit) for limit in ("at_least", "above", "at_most", "below")}
        form |= {limit: value if math.isfinite(value) else None for limit, value in limits.items()} | {"whole": parameter.whole}
    return form


def _first_sentence(cls: type[Any]) -> str:
    return (cls.__doc__ or cls.__name__).strip().split("\n")[0]
