"""Input pipelines: datasets, and what the engine receives of them. How they are shared among workers is in `simdist.input`.

Taught in lesson 08.
"""

from typing import NoReturn

from simdist.data.absent_names import OF_THE_PACKAGE as _OF_THE_PACKAGE
from simdist.data.absent_names import refusal as _refusal
from simdist.data.batch import Batch
from simdist.data.dataset import AUTOTUNE, Dataset
from simdist.data.iterator import DatasetIterator
from simdist.data.leaves import ArraySpec
from simdist.data.options import SHARD_HINT, AutoShardPolicy, DistributeOptions, Options
from simdist.data.table import Table

__all__ = [
    "AUTOTUNE",
    "SHARD_HINT",
    "ArraySpec",
    "AutoShardPolicy",
    "Batch",
    "Dataset",
    "DatasetIterator",
    "DistributeOptions",
    "Options",
    "Table",
]


def __getattr__(name: str) -> NoReturn:
    raise _refusal("module 'simdist.data'", name, _OF_THE_PACKAGE.get(name))
