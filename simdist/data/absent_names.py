"""Names of tf.data and TensorFlow that are not here: the error of each says what to write.

Invariant: for ``hasattr``, ``getattr`` with a default, copying and pickling, an absent name is absent: the error is an AttributeError.

Taught in lesson 08.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["OF_DATASETS", "OF_THE_PACKAGE", "OTHER_OPERATIONS", "SAME_OPERATIONS", "TYPES", "KnowsAbsentNames", "of_property", "refusal"]

RECORDS = "sd.Dataset.from_files(paths, read=fn), with a function from a path to the arrays or elements of that file"
OF_DATASETS = {
    "TFRecordDataset": RECORDS,
    "fingerprint": "dataset.table.key, the digest of the rows, where there is a table",
    "from_sparse_tensor_slices": "sd.Dataset.from_tensor_slices(matrix.toarray())",
    "from_tensor": "sd.Dataset.from_tensors(element), or from_tensor_slices(arrays)",
    "from_tensor_slice": "sd.Dataset.from_tensor_slices(arrays)",
    "group_by_reducer": "group_by_window(...), or reduce(...)",
    "load": f"np.savez(path, *arrays) where elements are saved, and {RECORDS}",
    "make_initializable_iterator": "iter(dataset)",
    "make_one_shot_iterator": "iter(dataset)",
    "map_and_batch": "map(fn).batch(n)",
    "map_with_legacy_function": "map(fn)",
    "output_classes": "element_spec",
    "output_shapes": "element_spec",
    "output_types": "element_spec",
    "ragged_batch": "padded_batch(n): arrays have no ragged axes",
    "random": "sd.Dataset.counter().map(lambda i: np.random.default_rng(int(i)).integers(1 << 31))",
    "rejection_resample": "one dataset for each class (filter), and sd.Dataset.sample_from_datasets(datasets, weights)",
    "save": "np.savez(path, *arrays) of next(iter(dataset.batch(n))), and sd.Dataset.from_files(paths, read=fn) to read them",
    "shuffle_and_repeat": "shuffle(n).repeat()",
    "snapshot": "cache(), which keeps elements in memory, or files of your own: np.savez, and sd.Dataset.from_files(paths, read=fn)",
    "sparse_batch": "batch(n) of dense rows: arrays are never sparse",
}


RESOLVER = "an sd.Cluster, whose cluster.resolver is one, or sd.SimpleClusterResolver(...)"
ARRAYS_OF_FILES = "orbax.checkpoint.PyTreeCheckpointer().restore(path), whose values are the arrays of a checkpoint by name"
LAYER = "keras.layers.{} of `from simdist import keras`"
OF_THE_PACKAGE = {
    "ClusterResolver": RESOLVER,
    "CollectiveHints": "sd.CommunicationOptions(...)",
    "CategoryEncoding": LAYER.format("CategoryEncoding"),
    "CollectiveCommunication": "sd.CommunicationImplementation",
    "CsvDataset": "sd.Dataset.from_files(paths), whose elements are lines, and a map that splits them; or read=fn with a reader of CSV",
    "Discretization": LAYER.format("Discretization"),
    "Example": RECORDS,
    "Feature": RECORDS,
    "Features": RECORDS,
    "FixedLengthRecordDataset": "sd.Dataset.from_files(paths, read=lambda path: np.fromfile(path, dtype).reshape(-1, length))",
    "GradientTape": "sd.value_and_grad(loss, variables)",
    "DistributedValues": "sd.PerReplica, the class of values of several replicas",
    "GCEClusterResolver": RESOLVER,
    "Hashing": "a function in the dataset's map, for example lambda word: zlib.crc32(str(word).encode()) % num_bins",
    "KubernetesClusterResolver": RESOLVER,
    "Module": "a keras.Model or a keras.layers.Layer, made in the scope; sd.Checkpoint takes its variables by name",
    "Normalization": LAYER.format("Normalization"),
    "RaggedTensor": "arrays that padded_batch fills up",
    "RunOptions": "nothing: strategy.run takes no options",
    "SlurmClusterResolver": RESOLVER,
    "SparseTensor": "dense arrays",
    "StaticVocabularyTable": "sd.StringLookup(vocabulary=..., num_oov_indices=...)",
    "TFRecordDataset": RECORDS,
    "Tensor": "jax.Array",
    "TensorShape": "a tuple of numbers, with None for a length that is open",
    "TensorSpec": "sd.ArraySpec(shape, dtype)",
    "TextLineDataset": "sd.Dataset.from_files(paths)",
    "UnionResolver": "from simdist.cluster import UnionResolver",
    "assert_cardinality": "nothing: a dataset may have an unknown length, and fit takes steps_per_epoch",
    "config": "nothing: devices are simulated, sd.MirroredStrategy(devices=2) has two",
    "control_dependencies": "nothing: what a step does to variables happens in the order of its lines",
    "device": "nothing: the strategy says where variables are, and what computes",
    "distribute": "the name itself, without a module: sd.MirroredStrategy, sd.ReduceOp, sd.get_replica_context, ...",
    "executing_eagerly": "nothing: steps are traced, and all else is eager",
    "experimental": "the name itself, without a module: sd.CommunicationOptions, sd.MinSizePartitioner, ...",
    "get_checkpoint_state": "sd.latest_checkpoint(directory), or the checkpoints of an sd.CheckpointManager",
    "gradients": "sd.value_and_grad(loss, variables)",
    "group": "nothing: what a step does to variables happens in the order of its lines",
    "list_variables": ARRAYS_OF_FILES,
    "load_checkpoint": ARRAYS_OF_FILES,
    "load_variable": ARRAYS_OF_FILES,
    "nest": "jax.tree.map(fn, structure), or jax.tree.leaves(structure)",
    "nn": "keras.ops, and sd.compute_average_loss, sd.scale_regularization_loss, sd.embedding_lookup",
    "no_op": "nothing: what a step does to variables happens in the order of its lines",
    "print": "jax.debug.print(...) in a step, and Python's print outside",
    "random": "keras.random, with a seed=keras.random.SeedGenerator(...) of the scope",
    "summary": "keras.callbacks.TensorBoard in fit; in a loop, tensorboard.summary.Writer(folder).add_scalar(name, float(value), step)",
    "tpu": "nothing: sd.TPUStrategy(sd.TPUClusterResolver(...)) is ready when it is made",
    "train": "the name itself, without a module: sd.Checkpoint, sd.CheckpointManager, sd.latest_checkpoint, ...",
}

# TensorFlow's operations that keras.ops has under the same name, for the same arguments in their order.
SAME_OPERATIONS = (
    "abs add broadcast_to cast cond convert_to_tensor cos divide einsum equal exp expand_dims eye floor greater "
    "greater_equal is_tensor less less_equal linspace logical_and logical_not logical_or matmul maximum minimum multiply negative "
    "not_equal one_hot ones ones_like pad reshape round shape sigmoid sign sin sort sqrt square squeeze stack stop_gradient subtract "
    "tanh tensordot tile transpose unstack vectorized_map where while_loop zeros zeros_like"
)
REDUCTIONS = "all any max mean min prod sum"
NUMBER_TYPES = "bfloat16 bool float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32"
OTHER_OPERATIONS = {
    "add_n": "sum(values), Python's",
    "argmax": "keras.ops.argmax(x, axis=0): without an axis, that of all elements",
    "argmin": "keras.ops.argmin(x, axis=0): without an axis, that of all elements",
    "clip_by_value": "keras.ops.clip(x, low, high)",
    "concat": "keras.ops.concatenate(arrays, axis)",
    "constant": "the number, or np.asarray(value, dtype)",
    "cumsum": "keras.ops.cumsum(x, axis=0): without an axis, that of all elements",
    "fill": "keras.ops.full(shape, value)",
    "gather": "keras.ops.take(x, indices, axis=0): without an axis, of all elements in one row",
    "identity": "the value itself",
    "map_fn": "keras.ops.map(fn, x), or keras.ops.vectorized_map(fn, x)",
    "newaxis": "None",
    "numpy_function": "dataset.map(fn), which calls a function of Python",
    "pow": "keras.ops.power(x, y)",
    "py_function": "dataset.map(fn), which calls a function of Python",
    "range": "keras.ops.arange(...), or sd.Dataset.range(...)",
    "rank": "len(x.shape)",
    "split": "keras.ops.split(x, parts, axis), where a list has the positions of the cuts, and not the sizes",
} | {f"reduce_{name}": f"keras.ops.{name}(x, axis)" for name in REDUCTIONS.split()}
MODULES = {
    "io": "Python's open, os, shutil and pathlib: files are files of this machine",
    "image": "keras.ops.image, or a function of Python in the dataset's map",
    "linalg": "keras.ops.linalg, jax.numpy.linalg",
    "math": "keras.ops, jax.numpy",
    "saved_model": 'model.save("model.keras") and keras.models.load_model, or sd.Checkpoint: there is no SavedModel',
    "strings": "a function of Python in the dataset's map, for example lambda word: str(word).lower()",
} | {name: f"keras.{name} of `from simdist import keras`" for name in ("initializers", "losses", "metrics", "optimizers")}
TYPES = {name: f'the word "{name}"' for name in NUMBER_TYPES.split()}

OF_THE_PACKAGE.update({name: f"keras.ops.{name}" for name in SAME_OPERATIONS.split()} | OTHER_OPERATIONS | MODULES | TYPES)


def of_property(owner: object, name: str) -> Any:
    """What a property gives that has raised the AttributeError of a function: Python takes that for an absent name, and forgets it.

    Raises:
        AttributeError: the same one again.
    """
    found = inspect.getattr_static(type(owner), name, None)
    return None if not isinstance(found, property) or found.fget is None else found.fget(owner)


def refusal(owner: str, name: str, instead: str | None) -> AttributeError:
    """The error of a name that is not there, with what to write.

    Example:
        >>> refusal("'Dataset' object", "save", "np.savez").args[0]
        "'Dataset' object has no attribute 'save'. Write instead: np.savez"
    """
    return AttributeError(f"{owner} has no attribute {name!r}{'' if instead is None else f'. Write instead: {instead}'}", name=name)


class KnowsAbsentNames(type):
    """The class of classes whose absent class methods are those of tf.data."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            raise refusal(f"type object {cls.__name__!r}", name, OF_DATASETS.get(name))
