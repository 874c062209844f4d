"""Objects of a checkpoint as its attributes: read, set later, replaced, deleted, and restored when they come."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from tests.checkpoint.kept import Kept


def test_an_object_is_an_attribute_of_its_name() -> None:
    v, kept = sd.Variable(1.0), Kept(2)
    checkpoint = sd.Checkpoint(kept, v=v)
    assert checkpoint.v is v and checkpoint.root is kept and {"v", "root"} <= set(dir(checkpoint))
    with pytest.raises(AttributeError, match="has no object 'w'; it has root, v"):
        checkpoint.w  # noqa: B018
    assert copy.copy(checkpoint).v is v


def test_a_copy_gets_objects_and_counts_of_its_own(tmp_path: Path) -> None:
    checkpoint = sd.Checkpoint(Kept(2), v=sd.Variable(1.0))
    checkpoint.save(tmp_path / "ckpt")
    other = copy.copy(checkpoint)
    other.w = sd.Variable(2.0)
    other.save(tmp_path / "other")
    assert set(checkpoint.objects) == {"root", "v"} and set(other.objects) == {"root", "v", "w"}
    assert (checkpoint.save_counter, other.save_counter) == (1, 2)


def test_an_attribute_that_is_set_later_is_saved_and_restored(tmp_path: Path) -> None:
    checkpoint = sd.Checkpoint()
    checkpoint.v = sd.Variable([1.0, 2.0])
    path = checkpoint.save(tmp_path / "ckpt")
    checkpoint.v.assign([0.0, 0.0])
    assert checkpoint.restore(path).assert_consumed().restored == ["v"]
    assert checkpoint.v.numpy().tolist() == [1.0, 2.0]


def test_an_attribute_that_is_replaced_or_deleted_is_saved_no_more(tmp_path: Path) -> None:
    first, second = sd.Variable(1.0), sd.Variable(2.0)
    checkpoint = sd.Checkpoint(v=first, w=first)
    checkpoint.v = second
    del checkpoint.w
    path = checkpoint.save(tmp_path / "ckpt")
    first.assign(5.0)
    second.assign(6.0)
    assert checkpoint.restore(path).restored == ["v"]
    assert (first.numpy(), second.numpy()) == (5.0, 2.0)
    with pytest.raises(AttributeError, match="could be deleted"):
        del checkpoint.w


def test_an_attribute_that_comes_after_a_restore_gets_its_value(tmp_path: Path) -> None:
    saved = {"v": sd.Variable(1.0), "nest": {"w": sd.Variable(2.0), "kept": Kept(3)}}
    path = sd.Checkpoint(**saved).save(tmp_path / "ckpt")
    checkpoint = sd.Checkpoint(v=sd.Variable(0.0))
    status = checkpoint.restore(path)
    with pytest.raises(AssertionError):
        status.assert_consumed()
    nest = {"w": sd.Variable(0.0), "kept": Kept(0)}
    checkpoint.nest = nest
    assert (nest["w"].numpy(), nest["kept"].state) == (2.0, 3)
    status.assert_consumed()
    checkpoint.nest = {"w": sd.Variable(9.0)}  # what was restored before is not restored again
    assert checkpoint.nest["w"].numpy() == 9.0


def test_the_latest_restore_has_the_value_of_an_attribute(tmp_path: Path) -> None:
    v = sd.Variable(1.0)
    saved = sd.Checkpoint(v=v)
    paths = [saved.save(tmp_path / "ckpt")]
    v.assign(2.0)
    paths.append(saved.save(tmp_path / "ckpt"))
    checkpoint = sd.Checkpoint()
    for path in paths:
        checkpoint.restore(path).expect_partial()
    checkpoint.save(tmp_path / "other")  # forgets none of them
    checkpoint.v = sd.Variable(0.0)
    assert checkpoint.v.numpy() == 2.0


def test_an_attribute_that_the_last_restore_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = sd.Checkpoint(v=sd.Variable([1.0, 2.0]), w=sd.Variable(1.0)).save(tmp_path / "ckpt")
    checkpoint = sd.Checkpoint()
    with pytest.warns(UserWarning, match="nothing has taken v, w"):
        checkpoint.restore(path)
    with pytest.raises(InvalidArgumentError, match=r"v has shape \(3,\), and the checkpoint has one of shape \(2,\)"):
        checkpoint.v = sd.Variable([0.0, 0.0, 0.0])
    assert checkpoint.objects == {}
    checkpoint.w = sd.Variable(0.0)
    assert checkpoint.w.numpy() == 1.0


@pytest.mark.parametrize("name", ["save", "restore", "read", "sync", "simdist", "replica_values"])
def test_names_that_a_checkpoint_uses_are_refused(name: str) -> None:
    for make in (lambda: sd.Checkpoint(**{name: sd.Variable(1.0)}), lambda: setattr(sd.Checkpoint(), name, sd.Variable(1.0))):
        with pytest.raises(InvalidArgumentError, match="calls something of its own"):
            make()


def test_what_cannot_be_saved_is_refused_as_an_attribute() -> None:
    checkpoint = sd.Checkpoint(v=sd.Variable(1.0))
    with pytest.raises(InvalidArgumentError, match="epoch is 3, which a checkpoint cannot save"):
        checkpoint.epoch = 3
    assert list(checkpoint.objects) == ["v"]
