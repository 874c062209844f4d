"""Optax optimizers that train several sets of variables: each set gets its own state back, whoever comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


class Adversaries:
    """Two variables of one shape, which one optimizer trains in steps of their own."""

    def __init__(self, **options: Any) -> None:
        with sd.OneDeviceStrategy().scope():
            self.g, self.d = sd.Variable([1.0, 2.0], name="g"), sd.Variable([3.0, 4.0], name="d")
            self.optimizer = sd.Optimizer(optax.adam(0.1))
        self.checkpoint = sd.Checkpoint(optimizer=self.optimizer, **({"g": self.g, "d": self.d} if options.get("variables", True) else {}))

    def train(self, names: str, factor: float = 1.0) -> list[list[float]]:
        for name in names:
            variable = getattr(self, name)
            self.optimizer.apply_gradients([(variable.value * factor + 1.0, variable)])
        return [self.g.numpy().tolist(), self.d.numpy().tolist()]


def by_optax(names: str) -> list[list[float]]:
    rule, values = optax.adam(0.1), {"g": np.float32([1.0, 2.0]), "d": np.float32([3.0, 4.0])}
    states = {name: rule.init(value) for name, value in values.items()}
    for name in names:
        updates, states[name] = rule.update(values[name] + 1.0, states[name])
        values[name] = np.asarray(optax.apply_updates(values[name], updates))
    return [values["g"].tolist(), values["d"].tolist()]


@pytest.mark.parametrize("after", ["gd", "dg", "ddg"])
def test_each_set_of_variables_gets_its_own_state_whichever_is_trained_first(after: str, tmp_path: Path) -> None:
    first, second = Adversaries(), Adversaries()
    first.train("ggd")
    status = second.checkpoint.restore(first.checkpoint.save(tmp_path / "ckpt"))
    assert status.waiting == ["optimizer"]
    second.train(after[:1])
    assert status.waiting == (["optimizer/1"] if after[0] == "g" else ["optimizer/0"])
    second.train(after[1:])
    status.assert_consumed()
    np.testing.assert_allclose(second.train(""), by_optax("ggd" + after), rtol=1e-5)


def test_what_still_waits_is_in_the_next_checkpoint_and_is_not_mixed_up(tmp_path: Path) -> None:
    first, second, third = Adversaries(), Adversaries(), Adversaries()
    first.train("ggd")
    second.checkpoint.restore(first.checkpoint.save(tmp_path / "first")).expect_partial()
    second.train("d")  # the rule of g waits, and has the number that that of d has now
    status = third.checkpoint.restore(second.checkpoint.save(tmp_path / "second"))
    third.train("gd")
    status.assert_consumed()
    np.testing.assert_allclose(third.train(""), by_optax("ggddgd"), rtol=1e-5)


def test_sets_of_an_optimizer_that_exist_in_another_order_at_the_restore(tmp_path: Path) -> None:
    first, second = Adversaries(), Adversaries()
    first.train("ggd")
    second.train("dg")
    second.checkpoint.restore(first.checkpoint.save(tmp_path / "ckpt")).assert_consumed()
    np.testing.assert_allclose(second.train("gd"), by_optax("ggdgd"), rtol=1e-5)


def test_an_optimizer_that_is_saved_without_its_variables_knows_them_by_name(tmp_path: Path) -> None:
    first, second = Adversaries(variables=False), Adversaries(variables=False)
    first.train("ggd")
    path = first.checkpoint.save(tmp_path / "ckpt")
    second.g.assign(first.g.numpy())
    second.d.assign(first.d.numpy())
    status = second.checkpoint.restore(path)
    np.testing.assert_allclose(second.train("dg"), by_optax("ggddg"), rtol=1e-5)
    status.assert_consumed()


def test_another_cut_of_the_variables_is_refused(tmp_path: Path) -> None:
    first, second = Adversaries(), Adversaries()
    first.train("ggd")
    second.checkpoint.restore(first.checkpoint.save(tmp_path / "ckpt")).expect_partial()
    with pytest.raises(InvalidArgumentError, match="one update to g, d, and the checkpoint has its state for an update of g"):
        second.optimizer.build([second.g, second.d])


def test_variables_that_were_not_there_begin_anew(tmp_path: Path) -> None:
    first, second = Adversaries(), Adversaries()
    first.train("gg")
    status = second.checkpoint.restore(first.checkpoint.save(tmp_path / "ckpt")).expect_partial()
    np.testing.assert_allclose(second.train("dg"), by_optax("ggdg"), rtol=1e-5)
    assert status.missing and all(path.startswith("optimizer/0/") for path in status.missing)
    assert not status.superfluous and not status.waiting


def test_a_checkpoint_that_names_no_variables_is_read_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Adversaries(), Adversaries()
    first.train("ggd")
    with monkeypatch.context() as older:
        older.setattr("simdist.checkpoint.collecting.labels_of_rules", lambda found: {})
        path = first.checkpoint.save(tmp_path / "ckpt")
    status = second.checkpoint.restore(path)
    np.testing.assert_allclose(second.train("gd"), by_optax("ggdgd"), rtol=1e-5)
    status.assert_consumed()
