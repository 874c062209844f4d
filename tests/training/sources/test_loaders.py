"""DataLoaders of torch, and Grain: known by the names of their classes, read without an import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import simdist as sd
from tests.training.sources.models import LABELS, X, Y, agree, batch, mirrored, servers


class Tensor:
    """What the adapter asks of a tensor of torch; named like one of torch's classes."""

    def __init__(self, values: np.ndarray, needs_gradient: bool = True) -> None:
        self.values, self.needs_gradient = values, needs_gradient
        self.shape, self.dtype = values.shape, values.dtype

    def detach(self) -> Tensor:
        return Tensor(self.values, needs_gradient=False)

    def cpu(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        assert not self.needs_gradient, "a tensor that needs gradients is not read by numpy"
        return self.values


Tensor.__module__ = "torch"


def loader_class(name: str, module: str) -> type:
    """A loader of five batches, of a class with this name."""

    class Loader:
        def __init__(self, length: int | None = 5, convert: Callable[[Any], Any] = lambda pair: [Tensor(part) for part in pair]) -> None:
            self.length, self.convert, self.passes = length, convert, 0

        def __len__(self) -> int:
            if self.length is None:
                raise TypeError("a loader of an iterable has no length")
            return self.length

        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            return (self.convert(batch(number)) for number in range(5))

    Loader.__name__, Loader.__module__ = name, module
    return Loader


DataLoader: Any = loader_class("DataLoader", "torch.utils.data.dataloader")
GRAIN: dict[str, Any] = {name: loader_class(name, "grain._src.python.data_loader") for name in ("DataLoader", "MapDataset", "IterDataset")}


def expected(**options: Any) -> dict[str, list[float]]:
    return agree(lambda: (X, Y), batch_size=4, **options)


@pytest.mark.parametrize("length", [5, None])
@pytest.mark.sample(2)
def test_a_loader_is_read_again_in_each_epoch(length: int | None) -> None:
    loader = DataLoader(length)
    found = mirrored().fit(loader, epochs=3, verbose=0).history
    wanted = expected(epochs=3)
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values, rel=1e-6)
    assert loader.passes == 4  # and once for the first batch
    assert "torch" not in sys.modules or "torch" in str(sys.modules["torch"])


def test_steps_evaluation_prediction_and_validation() -> None:
    model = mirrored()
    wanted = expected(epochs=2, steps_per_epoch=2, validation_data=(X, Y), validation_batch_size=4)
    found = model.fit(DataLoader(), epochs=2, steps_per_epoch=2, validation_data=DataLoader(), verbose=0).history
    assert found["val_loss"] == pytest.approx(wanted["val_loss"], rel=1e-6)
    assert model.evaluate(DataLoader(), verbose=0) == pytest.approx(model.evaluate(X, Y, verbose=0), rel=1e-6)
    assert model.predict(DataLoader(convert=lambda pair: Tensor(pair[0])), verbose=0).shape == (20, 1)


@pytest.mark.parametrize("name", GRAIN)
@pytest.mark.sample(2)
def test_grain_is_read_as_well(name: str) -> None:
    data = GRAIN[name](convert=lambda pair: pair)
    assert mirrored().fit(data, epochs=2, verbose=0).history["loss"] == pytest.approx(expected(epochs=2)["loss"], rel=1e-6)


@pytest.mark.parametrize("kind", ["torch", "grain"])
def test_options_beside_a_loader_are_refused(kind: str) -> None:
    data, noun = (DataLoader(), "a DataLoader") if kind == "torch" else (GRAIN["MapDataset"](), "a Grain dataset")
    for name, value in {"y": Y, "batch_size": 4, "shuffle": True, "class_weight": {0: 1.0}, "validation_split": 0.5}.items():
        with pytest.raises(sd.errors.InvalidArgumentError, match=rf"{name}.*{noun}"):
            mirrored().fit(data, verbose=0, **{name: value})


def test_workers_of_parameter_servers_take_each_batch_of_a_pass_once() -> None:
    loader, model = DataLoader(), servers()
    assert model.fit(loader, epochs=2, verbose=0).history["loss"]
    assert (loader.passes, int(model.optimizer.iterations)) == (2, 2 * len(loader))


def test_a_real_loader_of_torch() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(LABELS))
    agree(lambda: (torch.utils.data.DataLoader(data, batch_size=8),), epochs=2)
    agree(lambda: (torch.from_numpy(X), torch.from_numpy(Y)), batch_size=8)
