"""The exercises of lesson 06, sharding, embeddings and hot spots, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

import functools
import math
from typing import Any, cast

import numpy as np

import simdist as sd
from classroom.answers import a_whole_number
from classroom.exercise import Exercise
from classroom.hot_spots import dense_rounds, make_cluster, skewed_steps
from classroom.values import described
from simdist.errors import InvalidArgumentError
from simdist.variables.partitioners import checked_cut

__all__ = [
    "MODEL",
    "WHY_HOT_SHARD",
    "WHY_MOMENTUM",
    "WHY_ONE_PORT",
    "WHY_ROWS",
    "WHY_TURNS",
    "first_exercise",
    "measured",
    "second_exercise",
    "slow_run",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_ONE_PORT = """
Nothing has changed. A variable lies on **one** server, and its port is the bottleneck. The three others hold nothing and wait. More
servers help only if the bytes are spread over them: the variable must be cut.
"""

WHY_TURNS = """
The servers take turns: kernel to `ps:0`, bias to `ps:1`, kernel to `ps:0`, and so on. Round robin counts variables, not bytes. So all
kernels are on one server, and all biases on the other.
"""

WHY_ROWS = """
Not the number of ids counts, but the number of *different* ones: gradients of the same row are added up before they travel. Each row costs
16 floats of 4 bytes, and 8 bytes that say which row it is.
"""

WHY_MOMENTUM = """
Four: the two rows of this step, and the two rows of the step before. Their momentum is not zero, and moves them on, although nobody has
asked for them. After a thousand steps that is every row that was ever asked for. All others have no momentum yet, but the server must go
over them to find out.
"""

WHY_HOT_SHARD = """
Shard 0 holds the 25,000 most frequent words. It gets about nine of ten ids. That of the rows which *travel* its share is smaller is due to
the ids that are equal within a batch: they travel once, and most of them are in shard 0.
"""

# -- the runs -----------------------------------------------------------------------------------------------------------

SERVERS, SERVER_PORT, WORKER_PORT = 6, 4, 1
WORKERS = 12
MOST_MS = 80.0
MOST_SHARDS = 40
MOST_MEASURED = 5000  # shards; a run with more would take minutes
BANDWIDTH = 1e9
MODEL: dict[str, tuple[int, ...]] = {"table": (200_000, 16)}
for layer in range(1, 5):
    MODEL |= {f"kernel_{layer}": (1024, 512), f"bias_{layer}": (512,)}
MODEL |= {f"scale_{number}": (512,) for number in range(1, 13)}
MODEL_BYTES = sum(4 * math.prod(shape) for shape in MODEL.values())
FEWEST_SERVERS = math.ceil(2 * WORKERS * MODEL_BYTES / (BANDWIDTH * MOST_MS / 1e3))
NAMES = ("servers", "partitioner", "placement")

ROWS, SHARDS = 80_000, 8


def measured(design: dict[str, Any]) -> tuple[float, int]:
    """The milliseconds of a round of the second exercise's model, and the number of its shards.

    Args:
        design: the number of servers, the partitioner and the placement.

    Raises:
        InvalidArgumentError: the partitioner cuts the model into thousands of shards.
    """
    if callable(cut := design.get("partitioner")) and not isinstance(cut, type):
        shards = sum(checked_cut(cut(shape, np.dtype(np.float32)), shape)[1] for shape in MODEL.values())
        if shards > MOST_MEASURED:
            what = f"the partitioner cuts the model into {shards:,} shards, and a run with more than {MOST_MEASURED:,} would take minutes"
            raise InvalidArgumentError(f"{what}. Cut into fewer: the sizes of a partitioner are bytes, a megabyte is 1 << 20.")
    cluster = make_cluster(WORKERS, design["servers"])
    ms, strategy = dense_rounds(cluster, MODEL, design.get("partitioner"), placement=design.get("placement", "round_robin"))
    return ms, sum(shard.kind == "parameter" for shard in strategy.placements())


@functools.cache
def slow_run() -> tuple[sd.Cluster, sd.ParameterServerStrategy]:
    """A step of four workers whose ids lie close together, somewhere in the table."""
    random = np.random.default_rng(6)
    close = random.normal(0.69 * ROWS, 0.03 * ROWS, (4, 1500))
    anywhere = random.uniform(0, ROWS, (4, 500))
    ids = np.concatenate([close, anywhere], axis=1).astype(np.int32) % ROWS
    return skewed_steps(list(ids), ROWS, SHARDS)


# -- the checks ---------------------------------------------------------------------------------------------------------


def at_the_knee(workers: int) -> str | None:
    """The largest number of workers whose rounds are as short as those of one worker."""
    knee = SERVERS * SERVER_PORT // WORKER_PORT
    if workers == knee:
        return None
    if workers > knee:
        return f"{workers} workers make a round {workers / knee:.2f} times as long as one worker does."
    return f"with {workers} workers a round is as short as with one, but so it is with {workers + 1}."


def fast_and_small(answer: Any) -> str | None:
    """A design that is fast enough, with few shards, and the fewest servers."""
    if not isinstance(answer, dict) or not all(isinstance(name, str) for name in answer):
        return f"{described(answer)} is no dict: give one with the keys {', '.join(NAMES)}, as in the cell above."
    design = cast("dict[str, Any]", answer)
    if wrong := [name for name in design if name not in NAMES]:
        return f"{described(wrong[0])} is none of the keys {', '.join(NAMES)}."
    if problem := a_whole_number(1, 32, lambda _: None)(design.get("servers")):
        return f"'servers': {problem}"
    servers = int(design["servers"])
    try:
        ms, shards = measured(design | {"servers": servers})
    except (sd.errors.SimdistError, TypeError) as error:
        return f"the design was refused: {error}"
    if ms > MOST_MS:
        return f"a round takes {ms:.1f} ms, with {shards} shards."
    if shards > MOST_SHARDS:
        return f"there are {shards} shards; a round takes {ms:.1f} ms."
    if servers > FEWEST_SERVERS:
        return f"{ms:.1f} ms and {shards} shards are good, but fewer servers are enough."
    return None


def of_the_hot_shard(row: int) -> str | None:
    """The first row of the shard that most rows are read from."""
    cluster, strategy = slow_run()
    shards = [shard for shard in strategy.placements() if shard.variable == "embedding"]
    sent = {shard.task: cluster.trace.totals[shard.task, "bytes_sent"] for shard in shards}
    shard = next(shard for shard in shards if shard.row_start <= row < shard.row_stop)
    if row != shard.row_start:
        return f"row {row:,} is not the first of its shard, which begins with row {shard.row_start:,}."
    if sent[shard.task] == max(sent.values()):
        return None
    return f"the shard from row {row:,} on lies on {shard.task}, which sent {sent[shard.task] / 1e3:.0f} KB. Another server sent more."


first_exercise = Exercise(
    "Give the largest number of workers with which a round is as short as with one.",
    a_whole_number(1, 10_000, at_the_knee),
    hints=(
        "Below the knee a worker's port is the bottleneck. How many workers fill the port of one server?",
        "The knee is at N / P = B_ps / B_w. Here B_ps is 4 GB/s and B_w is 1 GB/s.",
    ),
    why="Four workers fill the port of one server, and there are six servers.",
)

second_exercise = Exercise(
    "Give a dict with servers, partitioner and placement: at most 80 ms a round, at most 40 shards, as few servers as possible.",
    fast_and_small,
    hints=(
        "Solve 2NS / (PB) = 80 ms for P: no design needs fewer servers. Then: which variables are worth cutting?",
        "Leave what is small whole: MaxSizePartitioner with a megabyte or so. Which placement balances the bytes?",
    ),
    why="By the formula no design with fewer servers is fast enough, and only the large variables are cut.",
)

third_exercise = Exercise(
    "Give the first row of the embedding's shard on the hot server.",
    a_whole_number(0, ROWS - 1, of_the_hot_shard),
    hints=(
        "A hot server sends many bytes; how many it holds does not matter. See slow_cluster.trace.totals['ps:0', 'bytes_sent'].",
        "Find the server that sent most. In slow_strategy.placements(), which shard of 'embedding' has that task? It has a row_start.",
    ),
    why="Most ids of this step lie in that shard. Its server sends, and applies, most of the rows.",
)
