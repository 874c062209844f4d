"""The Estimator of `tf.distribute`'s guide: a model function, trained, evaluated and asked for predictions under any strategy.

``sd.estimator`` has the names of ``tf.estimator`` that the guide uses. What of each is supported, the docstrings of `Estimator`,
`RunConfig` and `EstimatorSpec` say; what is not is refused. New programs are better served by ``simdist.keras``.
"""

from typing import NoReturn

from simdist.data.absent_names import refusal
from simdist.estimator.absent_names import OF_ESTIMATOR
from simdist.estimator.canned.deep import DNNClassifier, DNNRegressor
from simdist.estimator.canned.linear import LinearClassifier, LinearRegressor
from simdist.estimator.estimator import Estimator
from simdist.estimator.listeners import CheckpointSaverListener
from simdist.estimator.run_config import RunConfig
from simdist.estimator.specs import EstimatorSpec, EvalSpec, Exporter, ModeKeys, TrainSpec
from simdist.estimator.train_and_evaluate import train_and_evaluate

__all__ = [
    "CheckpointSaverListener",
    "DNNClassifier",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "LinearClassifier",
    "LinearRegressor",
    "ModeKeys",
    "RunConfig",
    "TrainSpec",
    "train_and_evaluate",
]


def __getattr__(name: str) -> NoReturn:
    raise refusal("module 'simdist.estimator'", name, OF_ESTIMATOR.get(name))
