"""The disk of a task on a simulated machine: how long it takes, what a death ends, and what it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.errors import ResourceExhaustedError, TimedOutError, UnavailableError
from simdist.hardware import Device, DiskModel, Network
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.world import World

TASKS = ("chief:0", "worker:0", "worker:1", "ps:0")
DISK = DiskModel(read_bandwidth=2000.0, write_bandwidth=1000.0, latency=0.01, fsync=0.1, capacity=10_000)
LATENCY_S, BANDWIDTH = 0.5, 1000.0


def written_s(size_bytes: int) -> float:
    """Write, fsync, read back, rename, fsync of the directory."""
    return (0.01 + size_bytes / 1000) + 0.1 + (0.01 + size_bytes / 2000) + 0.01 + 0.1


class Scene:
    """A world whose worker:0 writes and reads files; what ended when."""

    def __init__(self, seed: int = 0) -> None:
        network = Network(bandwidth=BANDWIDTH, latency=LATENCY_S)
        self.world = World({task: Device() for task in TASKS}, network, seed, "eager", disks={"worker": DISK})
        self.worker = self.world.tasks["worker:0"]
        self.disk = self.world.disk("worker:0")
        self.ended: dict[str, tuple[float, BaseException | None]] = {}

    def note(self, name: str) -> Any:
        def ended(error: BaseException | None) -> None:
            assert name not in self.ended, "it ends once"
            self.ended[name] = self.world.now, error

        return ended

    def at(self, second: float, function: Any, *args: Any) -> Scene:
        self.world.clock.after(second, lambda _: function(*args))
        return self

    def write_at(self, second: float, path: str, size_bytes: int, parts: Any = None) -> Scene:
        return self.at(second, lambda: self.disk.write(path, size_bytes, self.note(path), parts))

    def crash_at(self, second: float, task: str = "worker:0", back: float | None = 0.0, **options: Any) -> Scene:
        return self.at(second, lambda: self.world.crash(self.world.tasks[task], back, **options))

    def until(self, second: float) -> Scene:
        self.world.clock.sleep(second - self.world.now)
        return self

    def spans(self) -> list[tuple[str, float, float]]:
        found = self.world.trace.spans.where(category="checkpoint")
        return [(span.name, round(span.start_s, 9), round(span.end_s, 9)) for span in found if span.lane == "worker:0"]


def test_a_write_takes_all_its_operations_and_shows_one_span() -> None:
    scene = Scene().write_at(1.0, "/data/run/ckpt-1", 1000).until(100.0)
    assert scene.ended == {"/data/run/ckpt-1": (pytest.approx(1.0 + written_s(1000)), None)}
    assert scene.spans() == [("write ckpt-1", 1.0, pytest.approx(1.0 + written_s(1000)))]
    (span,) = scene.world.trace.spans.where(category="checkpoint")
    assert span.facts == {"bytes": 1000}


def test_a_read_takes_the_time_of_its_bytes() -> None:
    scene = Scene()
    scene.at(1.0, lambda: scene.disk.read("a/b/ckpt-1", 4000, scene.note("read"))).until(100.0)
    assert scene.ended == {"read": (pytest.approx(3.01), None)} and scene.spans() == [("read ckpt-1", 1.0, pytest.approx(3.01))]


def test_two_writes_and_a_read_are_done_one_after_the_other() -> None:
    scene = Scene().write_at(0.0, "a", 1000).write_at(0.0, "b", 500)
    scene.at(0.1, lambda: scene.disk.read("c", 2000, scene.note("c"))).until(100.0)
    ends = [
        pytest.approx(second) for second in (written_s(1000), written_s(1000) + written_s(500), written_s(1000) + written_s(500) + 1.01)
    ]
    assert [second for second, _ in scene.ended.values()] == ends
    assert [(start, end) for _, start, end in scene.spans()] == [(0.0, ends[0]), (ends[0], ends[1]), (ends[1], ends[2])]


def test_disks_of_two_tasks_work_side_by_side() -> None:
    scene = Scene().write_at(0.0, "a", 1000)
    scene.world.disk("worker:1").write("a", 1000, scene.note("other"))
    scene.until(100.0)
    assert scene.ended["a"] == scene.ended["other"] == (pytest.approx(written_s(1000)), None)


# -- parts ----------------------------------------------------------------------------------------------------------------


def test_parts_travel_side_by_side_before_the_write_begins() -> None:
    scene = Scene().write_at(0.0, "ckpt", 3000, {"worker:0": 1000, "worker:1": 1000, "ps:0": 1000}).until(100.0)
    gathered_s = LATENCY_S + 2 * 1000 / BANDWIDTH  # both enter by the same port
    assert scene.ended["ckpt"] == (pytest.approx(gathered_s + written_s(3000)), None)
    assert scene.spans() == [
        ("gather ckpt", 0.0, pytest.approx(gathered_s)),
        ("write ckpt", pytest.approx(gathered_s), pytest.approx(gathered_s + written_s(3000))),
    ]


def test_parts_of_the_task_itself_and_empty_ones_do_not_travel() -> None:
    scene = Scene().write_at(0.0, "ckpt", 1000, {"worker:0": 1000, "ps:0": 0}).until(100.0)
    assert scene.ended["ckpt"] == (pytest.approx(written_s(1000)), None)


def test_other_work_of_the_disk_does_not_wait_for_parts() -> None:
    scene = Scene().write_at(0.0, "ckpt", 1000, {"ps:0": 5000}).write_at(0.0, "other", 1000).until(100.0)
    assert scene.ended["other"][0] == pytest.approx(written_s(1000))


@pytest.mark.parametrize("how", ["crash", "lose_host"])
def test_the_death_of_a_holder_ends_the_write_at_once_and_leaves_no_call(how: str) -> None:
    scene = Scene().write_at(0.0, "ckpt", 2000, {"ps:0": 1000, "worker:1": 1000})
    scene.at(1.0, lambda: getattr(scene.world, how)(scene.world.tasks["ps:0"])).until(1.0 + 1e-9)
    second, error = scene.ended["ckpt"]
    assert second == 1.0 and isinstance(error, UnavailableError) and "ps:0 died" in str(error)
    assert not scene.disk.exists("ckpt") and scene.spans() == []
    assert not any(task.calls for task in scene.world.tasks.values())
    assert not any(link.flows for link in scene.world.fabric.links())


def test_a_holder_that_is_down_ends_the_write_at_once_but_later() -> None:
    scene = Scene().crash_at(0.5, "ps:0", None).write_at(1.0, "ckpt", 2000, {"worker:1": 1000, "ps:0": 1000}).until(100.0)
    second, error = scene.ended["ckpt"]
    assert second == 1.0 and isinstance(error, UnavailableError) and "ps:0 is down" in str(error)
    assert not any(task.calls for task in scene.world.tasks.values())


def test_a_holder_that_dies_after_its_part_has_arrived_is_not_missed() -> None:
    scene = Scene().write_at(0.0, "ckpt", 1000, {"ps:0": 1000}).crash_at(2.0, "ps:0", None).until(100.0)
    assert scene.ended["ckpt"][1] is None and scene.disk.exists("ckpt")


def test_a_part_that_is_lost_on_its_way_ends_the_write_by_its_time_out() -> None:
    scene = Scene()
    scene.world.silence.cut(scene.world.tasks["ps:0"], scene.worker)
    scene.write_at(0.0, "ckpt", 1000, {"ps:0": 1000}).until(2 * CALL_TIMEOUT_S)
    second, error = scene.ended["ckpt"]
    assert second == pytest.approx(CALL_TIMEOUT_S) and isinstance(error, TimedOutError) and not scene.disk.exists("ckpt")


# -- deaths and pauses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [0.5, 1.2, 1.9])  # while parts travel, while it waits for other work, while it is written
@pytest.mark.parametrize("keep_disk", [True, False])
def test_the_death_of_the_task_ends_its_writes_and_reads_at_once(second: float, keep_disk: bool) -> None:
    scene = Scene().write_at(0.0, "long", 1000).write_at(0.0, "ckpt", 1000, {"ps:0": 500})
    scene.at(0.1, lambda: scene.disk.read("old", 10_000, scene.note("read")))
    scene.crash_at(second, keep_disk=keep_disk).until(50.0)
    for name in ("ckpt", "read"):
        ended_s, error = scene.ended[name]
        assert ended_s == second and isinstance(error, UnavailableError) and "worker:0 died" in str(error)
    assert not scene.disk.exists("ckpt") and not any(".tmp" in name for name in scene.disk.disk.files.list())
    assert not any(task.calls for task in scene.world.tasks.values())
    scene.write_at(0.0, "next", 10).until(60.0)
    assert scene.ended["next"] == (pytest.approx(50.0 + written_s(10)), None)


def test_a_task_that_is_down_writes_and_reads_nothing() -> None:
    scene = Scene().crash_at(0.5, back=10.0).write_at(1.0, "a", 10).write_at(1.0, "b", 10, {"ps:0": 10})
    scene.at(1.0, lambda: scene.disk.read("c", 10, scene.note("c"))).until(100.0)
    assert all(second == 1.0 and isinstance(error, UnavailableError) for second, error in scene.ended.values())
    assert len(scene.ended) == 3 and scene.disk.used_bytes == 0


def test_a_paused_task_goes_on_with_its_write_when_it_goes_on() -> None:
    scene, heals = Scene().write_at(0.0, "a", 1000), list[Any]()
    scene.at(0.5, lambda: heals.append(scene.world.silence.pause(scene.worker))).at(10.0, lambda: heals.pop()()).until(100.0)
    # What was under way has come to its end; the fsync begins at 10 s.
    assert scene.ended["a"] == (pytest.approx(10.0 + written_s(1000) - 1.01), None)


def test_a_task_that_dies_while_it_is_paused_writes_nothing() -> None:
    scene = Scene().write_at(0.0, "a", 1000)
    scene.at(0.5, lambda: scene.world.silence.pause(scene.worker)).crash_at(2.0).until(100.0)
    assert scene.ended["a"][0] == 2.0 and isinstance(scene.ended["a"][1], UnavailableError) and not scene.disk.exists("a")


def test_a_full_disk_changes_nothing() -> None:
    scene = Scene().write_at(0.0, "a", 6000).write_at(20.0, "b", 5000).until(100.0)
    second, error = scene.ended["b"]
    assert second == 20.0 and isinstance(error, ResourceExhaustedError)
    assert str(error).startswith("'b' was not written, and nothing has changed. The disk of worker:0 has 10000 bytes, of which 6000")
    assert scene.disk.disk.files.list() == ["a"] and scene.disk.used_bytes == 6000


def test_a_file_that_is_replaced_needs_room_for_both_and_stays_where_there_is_none() -> None:
    scene = Scene().write_at(0.0, "a", 6000).until(20.0)
    before = scene.disk.disk.files.content("a")
    scene.ended.clear()
    scene.write_at(0.0, "a", 6000).until(100.0)
    assert isinstance(scene.ended["a"][1], ResourceExhaustedError) and scene.disk.disk.files.content("a") == before
    assert [mark.name for mark in scene.world.trace.instants.where(category="checkpoint")] == ["a was not written: the disk is full"]


# -- what survives --------------------------------------------------------------------------------------------------------

OLD, NEW = 700, 900
DURATION_S = written_s(NEW)


def replaced(seed: int, crash_s: float, had_old: bool, keep_disk: bool = True) -> tuple[Scene, str]:
    """A file that is written over while the task crashes, and what is under its name afterwards."""
    scene = Scene(seed)
    if had_old:
        scene.disk.write("model", OLD, lambda error: None)
    scene.until(10.0).write_at(0.0, "model", NEW).crash_at(crash_s, keep_disk=keep_disk).until(30.0)
    files = scene.disk.disk.files
    if not files.exists("model"):
        return scene, "absent"
    content = files.content("model")
    return scene, {OLD: "old", NEW: "new"}[content.size_bytes] if content.is_whole else "partial"


@given(seed=st.integers(0, 100), moment=st.floats(0.0, 1.1), had_old=st.booleans())
def test_after_a_crash_at_any_moment_a_file_is_whole_old_or_whole_new(seed: int, moment: float, had_old: bool) -> None:
    scene, found = replaced(seed, moment * DURATION_S, had_old)
    assert found in (["old", "new"] if had_old else ["absent", "new"])
    _, error = scene.ended["model"]
    assert found == "new" if error is None else isinstance(error, UnavailableError), "what was confirmed is there"
    assert scene.disk.used_bytes == {"old": OLD, "new": NEW, "absent": 0}[found], "no temporary file is left"
    assert set(scene.disk.disk.files.list()) <= {"model"}


def test_the_moments_above_find_every_outcome() -> None:
    """The property is not empty: crashes between rename and the last fsync leave now the one, now the other."""
    late = {replaced(seed, DURATION_S - 0.05, True)[1] for seed in range(20)}
    assert late == {"old", "new"} and replaced(0, 0.5 * DURATION_S, True)[1] == "old" and replaced(0, DURATION_S + 0.01, True)[1] == "new"


@given(seed=st.integers(0, 100), moment=st.floats(0.0, 1.1))
def test_a_lost_disk_has_no_file_whatever_was_confirmed(seed: int, moment: float) -> None:
    scene, found = replaced(seed, moment * DURATION_S, True, keep_disk=False)
    assert found == "absent" and scene.disk.used_bytes == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from("abc"), st.integers(0, 3000)),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("crash"), st.just("worker:0"), st.just(0)),
        st.tuples(st.just("torn"), st.just(""), st.integers(1, 4)),
        st.tuples(st.just("sleep"), st.just(""), st.integers(1, 4000)),
    ),
    max_size=30,
)


@given(steps=STEPS, seed=st.integers(0, 50))
def test_whatever_happens_files_are_whole_and_what_was_confirmed_is_there(steps: list[tuple[str, str, int]], seed: int) -> None:
    """A model of what must be there: the sizes that a name may have, which a confirmed write or a deletion makes one."""
    scene = Scene(seed)
    may_be: dict[str, set[int | None]] = {name: {None} for name in "abc"}

    def write(name: str, size_bytes: int) -> None:
        def ended(error: BaseException | None) -> None:
            may_be[name] = (
                {size_bytes} if error is None else may_be[name] | ({size_bytes} if isinstance(error, UnavailableError) else set())
            )

        scene.disk.write(name, size_bytes, ended)

    for kind, name, number in steps:
        if kind == "write":
            write(name, number)
        elif kind == "delete":
            scene.until(scene.world.now + 60.0).disk.delete(name)
            may_be[name] = {None}
        elif kind == "crash":
            scene.world.crash(scene.worker, 0.0)
            scene.until(scene.world.now)
        elif kind == "torn":
            scene.disk.disk.torn_writes += number
        else:
            scene.until(scene.world.now + number / 1000)
    scene.until(scene.world.now + 200.0)
    files = scene.disk.disk.files
    for name in files.list():
        assert files.content(name).is_whole and files.content(name).size_bytes in may_be[name]
    assert all(files.exists(name) or None in may_be[name] for name in "abc")
    assert scene.disk.used_bytes <= DISK.capacity
