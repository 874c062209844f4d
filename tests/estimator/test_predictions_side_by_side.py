"""Predictions of one Estimator that are open at the same time, each of a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from estimators import X, input_fn, regressor
from simdist.estimator.saved_steps import saved_values


def test_each_open_prediction_keeps_the_values_that_it_began_with(tmp_path: Path) -> None:
    estimator = regressor(tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=0).train(input_fn(16), steps=4)

    def expected(step: int) -> np.ndarray:
        values = saved_values(str(tmp_path / f"model.ckpt-{step}"))
        return X @ values["linear/linear_model/x/weights"] + values["linear/linear_model/bias_weights"]

    open_at_once = {
        step: estimator.predict(input_fn(1, endless=False), checkpoint_path=str(tmp_path / f"model.ckpt-{step}")) for step in (2, 4)
    }
    found: dict[int, list[float]] = {2: [], 4: []}
    for _ in range(3):
        for step, rows in open_at_once.items():
            found[step].append(next(rows)["predictions"])
    newest = estimator.train(input_fn(16), steps=2).predict(input_fn(1, endless=False))
    assert next(newest)["predictions"] == pytest.approx(expected(6)[0], abs=1e-6)
    for step, rows in open_at_once.items():
        found[step].append(next(rows)["predictions"])
        assert np.stack(found[step]) == pytest.approx(expected(step)[:4], abs=1e-6)
    assert np.abs(expected(2)[:4] - expected(4)[:4]).min() > 1e-3


def test_a_prediction_that_has_ended_leaves_its_model_to_the_next(tmp_path: Path) -> None:
    estimator = regressor(tmp_path).train(input_fn(16), steps=1)
    next(estimator.predict(input_fn(16)))
    assert len({id(estimator._models["infer"]) for _ in range(2) if next(estimator.predict(input_fn(16)))}) == 1
