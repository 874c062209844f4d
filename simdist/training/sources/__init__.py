"""What fit, evaluate and predict take as data: one file for each kind, and one place that chooses.

base.py          the idea: a source, and what a call was given
choice.py        which kind an object is; the sources of training and of evaluation
  datasets.py    sd.Dataset, sd.DatasetCreator, what a strategy distributed
  arrays.py      arrays of numpy, JAX, pandas and others, in structures
  generator.py   Python generators
  py_dataset.py  keras.utils.PyDataset
  loaders.py     DataLoaders of torch, Grain
  tensorflow.py  tf.data.Dataset
plain_keras.py   datasets for a model that belongs to no strategy
batches.py       batches that the user's code makes, as arrays of numpy
refusals.py      options that are refused beside data that brings its batches
steps.py         steps of an epoch
"""

from simdist.training.sources.arrays import Rows
from simdist.training.sources.base import ENDLESS, BatchedData, Source
from simdist.training.sources.choice import evaluation_source, gives_batches, split_arrays, training_source
from simdist.training.sources.steps import count_steps, data_and_first, first_batch, has_next, is_spent

__all__ = [
    "ENDLESS",
    "BatchedData",
    "Rows",
    "Source",
    "count_steps",
    "data_and_first",
    "evaluation_source",
    "first_batch",
    "gives_batches",
    "has_next",
    "is_spent",
    "split_arrays",
    "training_source",
]
