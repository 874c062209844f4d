"""Devices, disks and networks of a cluster file: the name of a preset, figures, or a preset with some other figures.

    hardware = "a100"                                                     # of all tasks
    hardware = { worker = "a100", ps = { preset = "server_cpu", memory = 64e9 } }
    disks = { ps = "hdd", worker = { preset = "ssd", capacity = 1e9 } }
    network = { preset = "ethernet_25g", topology = { is = "Racks", tasks_per_rack = 4 } }

A figure that is no number is a table with the class in ``is``, as in the text of a shared session.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TypeVar

from simdist import hardware
from simdist.errors import did_you_mean
from simdist.hardware import Device, DiskModel, Network
from simdist.hardware.plain import hardware_from_plain
from simdist.launcher.toml_table import TomlTable

__all__ = ["DEVICES", "DISKS", "NETWORKS", "read_disks", "read_hardware", "read_network"]

Model = TypeVar("Model", Device, DiskModel, Network)

DEVICES: dict[str, Device] = {name: value for name in hardware.__all__ if isinstance(value := getattr(hardware, name), Device)}
DISKS: dict[str, DiskModel] = {name: value for name in hardware.__all__ if isinstance(value := getattr(hardware, name), DiskModel)}
NETWORKS: dict[str, Network] = {name: value for name in hardware.__all__ if isinstance(value := getattr(hardware, name), Network)}


def read_hardware(table: TomlTable, jobs: Iterable[str]) -> Device | dict[str, Device] | None:
    """The device of all tasks, or one for each job; None where the key ``hardware`` is missing.

    Raises:
        InvalidArgumentError: an unknown job, preset or figure, or a figure that makes no sense.

    Example:
        >>> read_hardware(TomlTable("cluster.toml", "", {"hardware": {"ps": {"preset": "a100", "memory": 64e9}}}), ["ps"])["ps"].memory
        64000000000.0
    """
    return _by_job(table, "hardware", jobs, Device, DEVICES)


def read_disks(table: TomlTable, jobs: Iterable[str]) -> DiskModel | dict[str, DiskModel] | None:
    """The disk of all tasks, or one for each job; None where the key ``disks`` is missing.

    Raises:
        InvalidArgumentError: an unknown job, preset or figure, or a figure that makes no sense.

    Example:
        >>> read_disks(TomlTable("cluster.toml", "", {"disks": "hdd"}), ["ps"]).fsync
        0.012
    """
    return _by_job(table, "disks", jobs, DiskModel, DISKS)


def read_network(table: TomlTable) -> Network | None:
    """The network; None where the key ``network`` is missing.

    Raises:
        InvalidArgumentError: an unknown preset or figure, or a figure that makes no sense.

    Example:
        >>> read_network(TomlTable("cluster.toml", "", {"network": {"preset": "ethernet_1g", "latency": 1e-3}})).latency
        0.001
    """
    return _model(table, "network", Network, NETWORKS) if "network" in table else None


def _by_job(
    table: TomlTable, key: str, jobs: Iterable[str], kind: type[Model], presets: dict[str, Model]
) -> Model | dict[str, Model] | None:
    if key not in table:
        return None
    if isinstance(table.values[key], str):
        return _model(table, key, kind, presets)
    if not isinstance(table.values[key], dict):
        raise table.wrong(key, f"the name of a preset ({', '.join(presets)}), or a table with one for each job")
    by_job = table.table(key)
    by_job.require_known(jobs)
    return {job: _model(by_job, job, kind, presets) for job in by_job.values}


def _model(table: TomlTable, key: str, kind: type[Model], presets: dict[str, Model]) -> Model:
    value = table.values[key]
    if isinstance(value, str):
        return _preset(table, key, value, presets)
    if not isinstance(value, dict):
        raise table.wrong(key, f"the name of a preset ({', '.join(presets)}), or a table of figures")
    figures = table.table(key)
    figures.require_known(["preset", *(item.name for item in fields(kind) if item.name != "overrides")])
    name = figures.text("preset")
    model = kind() if name is None else _preset(figures, "preset", name, presets)
    changed = {figure: value for figure, value in figures.values.items() if figure != "preset"}
    return table.build(key, lambda: replace(model, **{figure: hardware_from_plain(value) for figure, value in changed.items()}))


def _preset(table: TomlTable, key: str, name: str, presets: dict[str, Model]) -> Model:
    if name not in presets:
        raise table.refuse(key, f"the preset {name!r} is not known. {did_you_mean(name, presets)}")
    return presets[name]
