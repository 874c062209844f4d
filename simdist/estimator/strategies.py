"""Which strategy an Estimator trains and evaluates under: the one of its `RunConfig`, or what fits its task.

| | training | evaluation |
|---|---|---|
| given in RunConfig | that one | that one; no `ParameterServerStrategy` |
| a cluster of TF_CONFIG with parameter servers | `ParameterServerStrategy` on the chief; workers and servers serve | one device |
| else | one device | one device, of the cluster of the training |

Predictions are computed on one device, as in TensorFlow.
"""

from __future__ import annotations

from simdist.cluster import TFConfigClusterResolver
from simdist.errors import InvalidArgumentError
from simdist.estimator.run_config import RunConfig, StrategyOrMaker
from simdist.runtime.launched_main import launched_main
from simdist.strategies.base import Strategy
from simdist.strategies.one_device import OneDeviceStrategy
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["Strategies", "serves"]


class Strategies:
    """The strategies of one Estimator, each made when it is first needed.

    Args:
        config: of the Estimator.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self._training: Strategy | None = None
        self._evaluation: SynchronousStrategy | None = None
        self._one_device: OneDeviceStrategy | None = None

    @property
    def training(self) -> Strategy:
        """That of `train`.

        Raises:
            InvalidArgumentError: several tasks would train, and nothing says how they do so together.
        """
        if self._training is None:
            config = self.config
            made = _strategy_of(config.train_distribute, "train_distribute")
            if made is None and config.num_ps_replicas:
                made = ParameterServerStrategy(TFConfigClusterResolver())
            if made is None and config.num_worker_replicas > 1:
                raise InvalidArgumentError(
                    f"The cluster of TF_CONFIG has {config.num_worker_replicas} tasks that train and no parameter servers, and nothing "
                    "says how they train together. Give RunConfig(train_distribute=sd.MultiWorkerMirroredStrategy)."
                )
            self._training = self.one_device if made is None else made
        return self._training

    @property
    def evaluation(self) -> SynchronousStrategy:
        """That of `evaluate`.

        Raises:
            InvalidArgumentError: it has parameter servers.
        """
        if self._evaluation is None:
            made = _strategy_of(self.config.eval_distribute, "eval_distribute")
            if made is not None and not isinstance(made, SynchronousStrategy):
                raise InvalidArgumentError(
                    f"eval_distribute is a {type(made).__name__}; an Estimator evaluates on replicas that step together. Leave it out for "
                    "one device, or give sd.MirroredStrategy(n)."
                )
            self._evaluation = self.one_device if made is None else made
        return self._evaluation

    @property
    def one_device(self) -> OneDeviceStrategy:
        """One device: of this task, of the cluster of the training, or of a cluster of its own."""
        if self._one_device is None:
            given = self._training or self.config.train_distribute or self.config.eval_distribute
            cluster = given.cluster if isinstance(given, Strategy) and launched_main.get() is None else None
            self._one_device = OneDeviceStrategy(cluster=cluster)
        return self._one_device


def serves(config: RunConfig) -> bool:
    """Whether this task waits for the work of others: a parameter server, or a worker beside some."""
    if config.task_type == "ps":
        return True
    return config.task_type == "worker" and config.num_ps_replicas > 0 and not isinstance(config.train_distribute, SynchronousStrategy)


def _strategy_of(given: StrategyOrMaker, name: str) -> Strategy | None:
    if given is None or isinstance(given, Strategy):
        return given
    made = given()
    if not isinstance(made, Strategy):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name} returned {made!r}; expected a strategy, such as sd.MirroredStrategy(2)")
    return made
