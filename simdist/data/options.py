"""What a dataset asks of a strategy that distributes it: how to share its elements among workers.

Options travel with a dataset through all its steps; a later `with_options` wins where both say something.

Taught in lesson 08.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NoReturn, cast

from simdist.arguments import END_S, number, optional_flag, shown, whole_number
from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = ["SHARD_HINT", "AutoShardPolicy", "DistributeOptions", "Options"]

SHARD_HINT = -1  # ``shard(SHARD_HINT, SHARD_HINT)`` marks where the policy HINT shards


KNOWN = ("experimental_distribute", "auto_shard_policy", "seconds_per_element", "deterministic", "experimental_deterministic")
# What a real pipeline does to be faster: elements are the same, and the speed of a pipeline here is said by seconds_per_element.
OF_SPEED = (
    "autotune",
    "experimental_optimization",
    "experimental_slack",
    "experimental_threading",
    "experimental_warm_start",
    "threading",
)


class AutoShardPolicy(enum.IntEnum):
    """How the elements of one dataset are shared among workers.

    OFF: every worker sees all elements. AUTO: FILE where there are files, else DATA. FILE: whole files.
    DATA: every worker keeps its share of each global batch. HINT: at the ``shard`` call that is marked.

    Under FILE, and HINT before ``batch``, each worker makes its own batches, and with ``drop_remainder`` drops its own remainder; under
    DATA the dataset drops one.

    Example:
        >>> AutoShardPolicy(-1).name
        'OFF'
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class DistributeOptions:
    """The part of `Options` that concerns several workers."""

    __slots__ = ("_policy",)

    def __init__(self) -> None:
        self._policy: AutoShardPolicy | None = None

    @property
    def stated_policy(self) -> AutoShardPolicy | None:
        """The policy that was asked for; None where nothing was said."""
        return self._policy

    @property
    def auto_shard_policy(self) -> AutoShardPolicy:
        """How elements are shared among workers; AUTO where nothing was said."""
        return AutoShardPolicy.AUTO if self._policy is None else self._policy

    @auto_shard_policy.setter
    def auto_shard_policy(self, policy: AutoShardPolicy | int) -> None:
        try:
            self._policy = AutoShardPolicy(whole_number(policy, "auto_shard_policy"))
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"auto_shard_policy is {policy!r}; expected one of AutoShardPolicy: {', '.join(known.name for known in AutoShardPolicy)}"
            ) from None

    def __setattr__(self, name: str, value: object) -> None:
        refuse_unknown(self, name, ("auto_shard_policy",))
        object.__setattr__(self, name, value)

    def merge(self, later: DistributeOptions) -> DistributeOptions:
        """These options, overruled by what `later` says."""
        merged = DistributeOptions()
        stated = self.stated_policy if later.stated_policy is None else later.stated_policy
        if stated is not None:
            merged.auto_shard_policy = stated
        return merged

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistributeOptions) and self.stated_policy == other.stated_policy

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # it can change


class Options:
    """Wishes that a dataset carries; give them to `Dataset.with_options`.

    Attributes:
        seconds_per_element: how long a worker's pipeline works on one element of this dataset, in virtual seconds; 0, the
            default, costs nothing. Steps of replicas that come faster to a distributed dataset wait for input; closures of a coordinator,
            and steps that take a plain `iter(dataset)`, do not.
        deterministic: accepted for tf.data's sake, also as `experimental_deterministic`: the order is always kept.

    Example:
        >>> options = Options()
        >>> options.experimental_distribute.auto_shard_policy = AutoShardPolicy.OFF
        >>> options.auto_shard_policy.name
        'OFF'
    """

    __slots__ = ("_deterministic", "_seconds", "experimental_distribute")

    def __init__(self) -> None:
        self.experimental_distribute = DistributeOptions()
        self._seconds: float | None = None
        self._deterministic: bool | None = None

    @property
    def stated_seconds(self) -> float | None:
        """The seconds per element that were asked for; None where nothing was said."""
        return self._seconds

    @property
    def seconds_per_element(self) -> float:
        return self._seconds or 0.0

    @seconds_per_element.setter
    def seconds_per_element(self, seconds: float) -> None:
        self._seconds = number(seconds, "seconds_per_element", below=END_S)

    @property
    def deterministic(self) -> bool | None:
        return self._deterministic

    @deterministic.setter
    def deterministic(self, wanted: bool | None) -> None:
        self._deterministic = optional_flag(wanted, "deterministic")

    experimental_deterministic = deterministic

    @property
    def auto_shard_policy(self) -> AutoShardPolicy:
        """Short for ``experimental_distribute.auto_shard_policy``."""
        return self.experimental_distribute.auto_shard_policy

    @auto_shard_policy.setter
    def auto_shard_policy(self, policy: AutoShardPolicy | int) -> None:
        self.experimental_distribute.auto_shard_policy = policy  # pyright: ignore[reportAttributeAccessIssue]

    def __setattr__(self, name: str, value: object) -> None:
        refuse_unknown(self, name, KNOWN)
        if name == "experimental_distribute" and not isinstance(value, DistributeOptions):
            raise TypeError(f"experimental_distribute is {value!r}; set its auto_shard_policy, or Options.auto_shard_policy, instead")
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise _unknown(self, name, KNOWN)

    def merge(self, later: Options) -> Options:
        """These options, overruled by what `later` says."""
        if not isinstance(cast("object", later), Options):
            raise TypeError(f"merge takes Options; got {shown(later)}")
        merged = Options()
        merged.experimental_distribute = self.experimental_distribute.merge(later.experimental_distribute)
        stated_s = self.stated_seconds if later.stated_seconds is None else later.stated_seconds
        if stated_s is not None:
            merged.seconds_per_element = stated_s
        merged.deterministic = self.deterministic if later.deterministic is None else later.deterministic
        return merged

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Options):
            return False
        return self.experimental_distribute == other.experimental_distribute and self.stated_seconds == other.stated_seconds

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # it can change

    def __repr__(self) -> str:
        return f"Options(auto_shard_policy=AutoShardPolicy.{self.auto_shard_policy.name})"


def refuse_unknown(options: object, name: str, known: tuple[str, ...]) -> None:
    """An option that does not exist is an error, not a new attribute."""
    if not name.startswith("_") and name not in known:
        raise _unknown(options, name, known)


def _unknown(options: object, name: str, known: tuple[str, ...]) -> AttributeError:
    why = "It would not change the elements: leave it out." if name in OF_SPEED else did_you_mean(name, known)
    return AttributeError(f"{type(options).__name__} has no option {name!r}. {why}", name=name)
