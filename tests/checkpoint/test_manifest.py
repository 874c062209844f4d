"""The manifest of a checkpoint: whatever is in the file, reading it gives a manifest or an error of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import simdist as sd
from simdist.checkpoint.manifest import LARGEST_BYTES, MANIFEST, ArrayEntry, Manifest, checksum_of, read_manifest
from simdist.errors import DataLossError, InvalidArgumentError, SimdistError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["float32", "<U8", "O", "v", "../x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@cache
def original() -> Path:
    """A checkpoint with everything that a manifest can hold."""
    v: Any = sd.Variable(np.zeros((2, 3), np.float32))
    empty: Any = sd.Variable(np.zeros((0, 2), np.float32))
    return Path(sd.Checkpoint(v=v, again=v, empty=empty, rows=iter(sd.Dataset.range(5).shuffle(5))).save(Path(mkdtemp(), "ckpt")))


def positions(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in a tree of JSON."""
    yield path
    if isinstance(tree, (dict, list)):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from positions(tree[key], (*path, key))


@st.composite
def changed(draw: st.DrawFn) -> str:
    """A manifest of which something has another value, or is missing, or was added; perhaps with a checksum that fits."""
    tree = json.loads((original() / MANIFEST).read_text())
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from([path for path in positions(tree) if path]))
        at = tree
        for key in above:
            at = at[key]
        match draw(st.sampled_from(["replace", "delete", "add"])):
            case "replace":
                at[last] = draw(JSON)
            case "delete":
                del at[last]
            case _ if isinstance(at, dict):
                at[draw(st.text(max_size=4))] = draw(JSON)
            case _:
                at.append(draw(JSON))
    return fitting(tree) if draw(st.booleans()) else json.dumps(tree)


def fitting(tree: Any) -> str:
    if "body" in tree:
        tree["checksum"] = blake2b(json.dumps(tree["body"], sort_keys=True).encode(), digest_size=16).hexdigest()
    return json.dumps(tree)


def with_body(**changes: Any) -> str:
    tree = json.loads((original() / MANIFEST).read_text())
    tree["body"] |= changes
    return fitting(tree)


@given(changed())
@example(with_body(sequence="1"))
@example(with_body(saved_s=float("nan")))
@example(with_body(number=True))
@example(with_body(aliases={"a": 1}))
@example(with_body(states={"rows": []}))
@example(with_body(states={"simdist/counters": {"save_counter": "x"}}))
@example(with_body(states={"simdist/counters": {"draws": [1]}}))
@example(with_body(states={"simdist/counters": {"draws": {"worker:0": None}}}))
@example(with_body(arrays={"v": {"shape": [10**30, 0], "dtype": "float32", "checksum": "", "name": ""}}))
@example(with_body(arrays={"v": {"shape": [-1], "dtype": "float32", "checksum": "", "name": ""}}))
@example(with_body(arrays={"v": {"shape": [0] * 99, "dtype": "float32", "checksum": "", "name": ""}}))
@example(with_body(arrays={"v": {"shape": [1 << 50, 0, 1 << 50], "dtype": "float32", "checksum": "", "name": ""}}))
@example(with_body(arrays={"v": {"shape": [0], "dtype": "O", "checksum": "", "name": ""}}))
@example("[" * 100_000)
@example('{"format": "simdist checkpoint", "version": 1, "checksum": "", "body": ' + "[" * 100_000)
@example("1" * 10_000)
@example("")
@example("\ud800")
def test_whatever_a_manifest_says_only_errors_of_ours_are_raised(text: str) -> None:
    path = original()
    before = (path / MANIFEST).read_bytes()
    v: Any = sd.Variable(np.ones((2, 3), np.float32))
    others = iter(sd.Dataset.range(5).shuffle(5))
    try:
        (path / MANIFEST).write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            found = read_manifest(path)
            sd.Checkpoint(v=v, rows=others).restore(path).expect_partial()
        except SimdistError:
            assert v.numpy().all() and others.state_dict()["consumed"] == 0
        else:
            assert isinstance(found.sequence, int)
            sd.CheckpointManager(sd.Checkpoint(v=v), path.parent, 2)
    finally:
        (path / MANIFEST).write_bytes(before)


def test_each_error_says_what_is_the_matter(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"has no simdist\.json"):
        read_manifest(tmp_path)
    (tmp_path / MANIFEST).write_text('{"format": "another", "version": 1}')
    with pytest.raises(InvalidArgumentError, match="has the format 'another'"):
        read_manifest(tmp_path)
    (tmp_path / MANIFEST).write_text(with_body().replace('"number": 1', '"number": 2'))
    with pytest.raises(DataLossError, match="is damaged"):
        read_manifest(tmp_path)
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    with pytest.raises(DataLossError, match="cannot be a manifest"):
        read_manifest(tmp_path)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    entry = ArrayEntry((2, 0), "bfloat16", checksum_of(np.zeros(3)), "kernel")
    written = Manifest(3, 7, 1.25, {"ü/0": entry}, {"b": "ü/0"}, {"it": [{"consumed": 1}]}, {"ü/0": 4}, "abc")
    (tmp_path / MANIFEST).write_text(written.to_json())
    assert read_manifest(tmp_path) == written and written.size_bytes == 0 and entry.size_bytes == 0
