"""A text makes the same session elsewhere, and no text does harm."""

from __future__ import annotations

import base64
import json
import warnings
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_programs as programs
import simdist as sd
from sampling import examples
from simdist import errors
from simdist.hardware.plain import plain_hardware
from simdist.session import sharing

CRASH = {"kind": "crash", "task": "worker:1", "restart_after": 0.0002}
PROGRAMS = {"coordinator": programs.coordinator}


def shared() -> sd.Session:
    hardware = {"worker": sd.hardware.Device(jitter=sd.hardware.TwoPoint(1.0, 2.0, probability=0.1)), "ps": sd.hardware.server_cpu}
    network = sd.hardware.ethernet_25g.in_racks(2, oversubscription=4.0).with_port("ps:0", bandwidth=1e9)
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=5, hardware=hardware, network=network))
    session.advance(until=0.0005)
    session.inject(CRASH)
    session.advance(events=9)
    return session


def packed(described: Any, version: str = "1") -> str:
    body = base64.urlsafe_b64encode(zlib.compress(json.dumps(described).encode())).decode()
    return f"simdist-session:{version}:{zlib.crc32(body.encode()):08x}:{body}"


def unpacked(text: str) -> dict[str, Any]:
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(text.split(":")[3])))


@pytest.mark.parametrize("disks", [sd.hardware.hdd, {"ps": sd.hardware.DiskModel(capacity=1e6), "chief": sd.hardware.ssd}])
def test_disks_are_shared_with_the_cluster(disks: Any) -> None:
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, disks=disks))
    session.advance(until=0.0005)
    text = sd.share(session)
    opened = sd.open_share(text, PROGRAMS)
    assert opened.cluster.disks == disks and sd.share(opened) == text
    assert opened.cluster.engine.disk("ps:1").model == session.cluster.engine.disk("ps:1").model != sd.hardware.nvme


def test_disks_that_are_the_default_need_no_text() -> None:
    session = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, disks=sd.hardware.nvme))
    session.advance(until=0.0005)
    text = sd.share(session)
    assert "disks" not in unpacked(text)["cluster"]
    assert sd.open_share(text, PROGRAMS).cluster.disks == sd.hardware.nvme


def test_opened_session_is_at_the_same_moment_and_goes_on_in_the_same_way() -> None:
    session = shared()
    text = sd.share(session)
    assert len(text) < 900 and text.isascii() and "\n" not in text
    opened = sd.open_share(text, PROGRAMS)
    assert (opened.now, opened.digest(), opened.commands, opened.moment()) == (
        session.now,
        session.digest(),
        session.commands,
        session.moment(),
    )
    assert sd.share(opened) == text
    for one in (session, opened):
        one.advance()
    assert (opened.result, opened.digest()) == (session.result, session.digest())
    at_the_end = sd.open_share(sd.share(session), PROGRAMS)
    assert (at_the_end.state, at_the_end.result) == ("finished", session.result)


def test_session_that_has_not_begun_is_shared_as_such() -> None:
    def program(cluster: sd.Cluster) -> float:
        cluster.trace.instant("chief:0", "mark", "begins", cluster.now)
        sd.sleep(1.0)
        return cluster.now

    first = sd.Session(program, sd.Cluster({"worker": 1}))
    opened = sd.open_share(sd.share(first), {"program": program})
    assert (opened.now, opened.digest()) == (0.0, first.digest())
    first.advance()
    opened.advance()
    assert (opened.result, opened.digest()) == (1.0, first.digest())


def test_failed_session_is_shared_as_it_failed() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise RuntimeError("not enough")

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    with pytest.raises(RuntimeError):
        session.advance()
    opened = sd.open_share(sd.share(session), {"program": program})
    assert (opened.state, opened.now) == ("failed", 1.0)


def test_commands_that_are_still_to_come_are_shared_too() -> None:
    session = shared()
    session.advance()
    session.rewind(0.0002)
    opened = sd.open_share(sd.share(session), PROGRAMS)
    assert opened.commands == session.commands != []
    opened.advance()
    session.advance()
    assert opened.digest() == session.digest()


def test_another_program_of_that_name_is_a_warning() -> None:
    text = sd.share(shared())
    with pytest.warns(UserWarning, match="another version of it"):
        sd.open_share(text, {"coordinator": lambda cluster: sd.sleep(1.0, cluster)})


def test_what_has_no_text_is_refused() -> None:
    class Odd(sd.hardware.NoJitter):
        pass

    quiet = sd.Session(lambda cluster: None, sd.Cluster({"worker": 1}))
    with pytest.raises(errors.InvalidArgumentError, match="has no name"):
        sd.share(quiet)
    assert sd.open_share(sd.share(quiet, name="quiet"), {"quiet": lambda cluster: None}).state == quiet.state == "paused"
    odd = sd.Session(programs.coordinator, sd.Cluster({"worker": 1}, hardware=sd.hardware.Device(jitter=Odd())))
    with pytest.raises(errors.InvalidArgumentError, match=r"not one of simdist\.hardware"):
        sd.share(odd)
    quiet.close()
    with pytest.raises(errors.FailedPreconditionError, match="close"):
        sd.share(quiet, name="quiet")


def test_session_with_more_commands_than_a_text_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    session = shared()
    monkeypatch.setattr(sharing, "LONGEST_TEXT", len(sd.share(session)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(30):
            session.inject({"kind": "slow", "task": "worker:0", "factor": 1.5 + number / 7, "at": 0.7 + number / 1e6, "until": 0.9})
        with pytest.raises(errors.InvalidArgumentError, match="31 commands"):
            sd.share(session)
        session.close()


def test_texts_that_are_damaged_too_long_or_of_another_version_are_refused() -> None:
    text = sd.share(shared())
    bomb = base64.urlsafe_b64encode(zlib.compress(b" " * 10_000_000, 9)).decode()
    wrong = {
        "": "no shared session",
        "hello": "no shared session",
        text[:-1]: "damaged",
        text.replace(":1:", ":2:", 1): "version='2'",
        text + "x" * sharing.LONGEST_TEXT: "64,000 at most",
        text + "\ud800": "damaged",
        text.replace("simdist-session", "simdist"): "no shared session",
        packed([1, 2]): "no description",
        packed({"program": "coordinator"}): "expected",
        f"simdist-session:1:{zlib.crc32(b'%%%'):08x}:%%%": "no shared session",
        f"simdist-session:1:{zlib.crc32(bomb.encode()):08x}:{bomb}": "longer than",
    }
    for given_text, message in wrong.items():
        with pytest.raises(errors.InvalidArgumentError, match=message):
            sd.open_share(given_text, PROGRAMS)
    with pytest.raises(TypeError, match="expected the text"):
        sd.open_share(3, PROGRAMS)  # type: ignore[arg-type]


def changed(described: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(described))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


WRONG = [
    (["program"], "os.system", "was not given"),
    (["program"], ["coordinator"], "was not given"),
    (["commands"], {}, "no list"),
    (["commands"], [{"at_s": 0.1}], "no command"),
    (["commands"], [{"at_s": "now", "fault": CRASH}], "no command"),
    (["commands", 0, "fault", "kind"], "__import__", "not known"),
    (["moment"], [0.1], "no moment"),
    (["moment"], ["now", 3, False], "no moment"),
    (["moment"], [-1.0, 3, False], "now_s"),
    (["moment"], [0.1, -3, False], "events"),
    (["cluster"], 7, "no cluster"),
    (["cluster", "spec"], {"worker": 10**9}, "more than 20,000 tasks"),
    (["cluster", "spec"], {"worker": "many"}, "no cluster"),
    (["cluster", "spec"], {"worker": {"x": "a:1"}}, "no cluster"),
    (["cluster", "spec"], {"worker": -1}, "number of tasks"),
    (["cluster", "seed"], "seven", "no cluster"),
    (["cluster", "numerics"], "magic", "not known"),
    (["cluster", "network"], {"is": "Popen", "args": "sh"}, "no hardware that is known"),
    (["cluster", "network"], plain_hardware(sd.hardware.server_cpu), "no Network"),
    (["cluster", "disks"], plain_hardware(sd.hardware.server_cpu), "no DiskModel"),
    (["cluster", "disks"], {"gpu": plain_hardware(sd.hardware.ssd)}, "disks names the job 'gpu'"),
    (["cluster", "network", "port"], 3, "no figure"),
    (["cluster", "network", "bandwidth"], -1.0, "bandwidth"),
    (["cluster", "network", "topology"], {"is": "Racks", "tasks_per_rack": "x"}, "Racks"),
    (["cluster", "network", "topology"], {"is": "Racks", "tasks_per_rack": [[[[[[1]]]]]]}, "nested too deeply"),
    (["commands", 0, "at_s"], 10**400, "at_s"),
    (["commands", 0, "fault", "restart_after"], 10**400, "restart_after"),
    (["commands", 0, "after_events"], -1, "after_events"),
    (["moment"], [10**400, 3, False], "now_s"),
    (["cluster", "spec"], {"worker": 2, "ps": 2, "\ud800": 1}, "no cluster"),
    (["cluster", "network", "overrides"], [5], "overrides has 5"),
    (["cluster", "network", "bandwidth"], -(10**400), "bandwidth"),
    (["cluster", "network", "latency"], 10**400, "latency"),
    (["cluster", "hardware", "worker"], None, "no Device"),
    (["cluster", "hardware", "gpu"], {"is": "Device"}, "gpu"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_fields_that_make_no_sense_are_refused(path: list[Any], value: Any, message: str) -> None:
    described = unpacked(sd.share(shared()))
    with pytest.raises(errors.InvalidArgumentError, match=message):
        sd.open_share(packed(changed(described, path, value)), PROGRAMS)


@examples(60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_refused_with_one_kind_of_error(value: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        sd.open_share(packed(value), PROGRAMS)


@examples(100)
@given(st.text(max_size=300))
def test_any_text_is_refused_with_one_kind_of_error(text: str) -> None:
    for given_text in (text, f"simdist-session:1:{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}:{text}"):
        with pytest.raises(errors.InvalidArgumentError):
            sd.open_share(given_text, PROGRAMS)
