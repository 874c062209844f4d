"""What a launched main knows of itself."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.runtime.launched_main import launched_main


def test_launched_main_knows_its_cluster_and_task_and_a_notebook_has_none() -> None:
    with sd.Cluster({"worker": 2}) as cluster:

        def main() -> tuple[bool, str]:
            own = launched_main.get()
            assert own is not None
            return own.cluster is cluster, own.task

        run = cluster.launch(main)
        run.join()
        assert run.results == {"worker:0": (True, "worker:0"), "worker:1": (True, "worker:1")}
        assert launched_main.get() is None


@pytest.mark.parametrize(("spec", "job"), [({"worker": 0}, "worker"), ({"worker": 1, "evaluator": 0}, ["evaluator"])])
def test_launch_on_no_task_is_refused(spec: dict[str, int], job: str | list[str]) -> None:
    with sd.Cluster(spec) as cluster, pytest.raises(sd.errors.InvalidArgumentError, match=r"there is no such task in Cluster\("):
        cluster.launch(lambda: None, job=job)


def test_launch_on_several_jobs_needs_no_task_of_each() -> None:
    with sd.Cluster({"worker": 1, "evaluator": 0}) as cluster:
        run = cluster.launch(lambda: 7, job=["worker", "evaluator"])
        run.join()
        assert run.results == {"worker:0": 7}


@pytest.mark.parametrize("kind", [sd.errors.UnavailableError, sd.errors.TimedOutError, sd.errors.AbortedError])
def test_main_that_fails_too_often_is_said_to_have_been_started_again(kind: type[sd.errors.SimdistError]) -> None:
    def main() -> None:
        raise kind("The oracle is silent. Launch with restart='always'.")

    with sd.Cluster({"worker": 1}) as cluster:
        run = cluster.launch(main, restart="always")
        with pytest.raises(
            kind, match=r"worker:0 was started again 20 times.* failed once more\. Find out.* The last error: The oracle is silent\."
        ) as caught:
            run.join()
    assert type(caught.value) is kind
    assert str(caught.value.__cause__).startswith("The oracle is silent")
    assert run.restarts == {"worker:0": 20}


def test_launched_main_sees_who_of_the_others_has_returned() -> None:
    with sd.Cluster({"worker": 2}) as cluster:

        def main() -> list[str]:
            own = launched_main.get()
            assert own is not None
            sd.sleep(2.0 if own.task == "worker:0" else 1.0)
            return sorted(own.returned)

        run = cluster.launch(main)
        run.join()
        assert run.results == {"worker:0": ["worker:1"], "worker:1": []}


def test_endings_are_called_in_order_when_the_main_has_returned() -> None:
    called: list[tuple[str, object]] = []
    with sd.Cluster({"worker": 1}) as cluster:

        def main() -> None:
            own = launched_main.get()
            assert own is not None
            own.endings.append(lambda error: called.append(("first", error)))
            own.endings.append(lambda error: called.append(("second", error)))
            assert called == []

        cluster.launch(main).join()
    assert called == [("first", None), ("second", None)]
