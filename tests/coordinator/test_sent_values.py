"""Arguments and results of plain functions travel: what one side changes later, the other does not see."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, NamedTuple

import numpy as np

import simdist as sd
from simdist.coordinator.sent_values import sent


class Pair(NamedTuple):
    numbers: Any
    name: str


def coordinated(workers: int) -> tuple[sd.Cluster, sd.ClusterCoordinator]:
    cluster = sd.Cluster({"worker": workers, "ps": 1})
    return cluster, sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))


def test_a_result_stays_what_it_was_when_the_function_returned() -> None:
    _, coordinator = coordinated(1)
    total, history = coordinator.create_per_worker_resource(lambda: np.zeros(2)), coordinator.create_per_worker_resource(list)

    def count(total: Any, history: list[int], number: int) -> dict[str, Any]:
        total += number
        history.append(number)
        return {"total": total, "history": history}

    replies = coordinator.fetch([coordinator.schedule(count, args=(total, history, number)) for number in (1, 2, 3)])
    assert [reply["total"].tolist() for reply in replies] == [[1, 1], [3, 3], [6, 6]]
    assert [reply["history"] for reply in replies] == [[1], [1, 2], [1, 2, 3]]


def test_a_function_that_is_run_again_gets_its_arguments_as_they_were_scheduled() -> None:
    cluster, coordinator = coordinated(2)

    def change(given: dict[str, Any]) -> float:
        given["array"] += 1.0
        sd.sleep(5.0)
        return float(given["array"][0])

    cluster.faults.crash("worker:0", at=1.0)
    assert coordinator.schedule(change, args=({"array": np.zeros(1)},)).fetch() == 1.0


def test_containers_keep_their_types_and_share_no_array() -> None:
    array = np.zeros(1)
    given = Pair((array, [array]), "a"), defaultdict(list, {3: array, "b": {1, 2}}), deque([array], maxlen=4)
    reply = sent(given)
    array += 1.0
    assert [type(part) for part in reply] == [Pair, defaultdict, deque] and reply[2].maxlen == 4 and list(reply[1]) == [3, "b"]
    assert reply[0].numbers[0] == reply[0].numbers[1][0] == reply[1][3] == reply[2][0] == 0.0


def test_a_list_may_be_in_itself_and_other_objects_are_passed() -> None:
    ring: list[Any] = [object()]
    ring.append(ring)
    reply = sent(ring)
    assert reply is not ring and reply[1] is reply and reply[0] is ring[0]
