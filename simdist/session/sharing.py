"""A session as one short text, to be sent to another person: its cluster, seed, commands and moment, and the name of its program.

    simdist-session:1:<checksum>:<JSON, compressed, in base 64>

The text holds no code, and opening it looks nothing up: the programs are arguments. So a text from a stranger can at
most describe another run of a program that is at hand.
"""

from __future__ import annotations

import base64
import binascii
import json
import warnings
import zlib
from collections.abc import Mapping
from typing import Any, cast

from simdist.errors import FailedPreconditionError, InvalidArgumentError, did_you_mean
from simdist.session.commands import command_from_plain, plain_command
from simdist.session.goals import Moment
from simdist.session.plain_cluster import cluster_from_plain, plain_cluster
from simdist.session.run import Program
from simdist.session.session import Session

__all__ = ["open_share", "share"]

FORMAT = "simdist-session"
VERSION = "1"
LONGEST_TEXT = 64_000  # characters: some thousand commands
LONGEST_JSON = 1_000_000
FIELDS = {"program", "cluster", "commands", "moment", "digest"}


def share(session: Session, name: str | None = None) -> str:
    """One short text from which `open_share` makes the same session at the same moment.

    Args:
        session: whose.
        name: of its program, by which it is found again; default that of the function.

    Raises:
        InvalidArgumentError: hardware of a class of your own, more commands than a text holds, or a program without a name.
        FailedPreconditionError: the cluster computes on JAX devices of this machine, or the session is closed.
        TypeError: it is no session.

    Example:
        >>> import simdist as sd
        >>> def wait(cluster):
        ...     sd.sleep(2.0, cluster)
        >>> session = sd.Session(wait, sd.Cluster({"worker": 2}, seed=7))
        >>> session.advance(until=1.0)
        >>> sd.open_share(sd.share(session), programs={"wait": wait})
        Session(paused at 1.000000 s, 0 commands)
    """
    if not isinstance(cast("object", session), Session):
        raise TypeError(f"session is {session!r:.200}; expected an sd.Session, whose run another person can do again")
    found = getattr(session.program, "__name__", None) if name is None else name
    if not isinstance(found, str) or not found or (name is None and found == "<lambda>"):
        raise InvalidArgumentError(f"The program {session.program!r} has no name. Give it one: share(session, name='training').")
    if session.state == "closed":
        raise FailedPreconditionError("share was called after session.close(). Begin another run with session.rewind(0.0).")
    described = {
        "program": found,
        "cluster": plain_cluster(session.cluster),
        "commands": [plain_command(command) for command in session.commands],
        "moment": [session.moment().now_s, session.moment().events, session.moment().is_over],
        "digest": session.digest(),
    }
    text = _encoded(json.dumps(described, allow_nan=False, separators=(",", ":")))
    if len(text) > LONGEST_TEXT:
        raise InvalidArgumentError(
            f"The text has {len(text):,} characters; {LONGEST_TEXT:,} are the most. The session has {len(session.commands):,} commands: "
            "write them to a file with commands_to_json(session.commands)."
        )
    return text


def open_share(text: str, programs: Mapping[str, Program]) -> Session:
    """The session of a text that `share` made, at its moment.

    Args:
        text: from `share`.
        programs: by name; only these can run.

    Raises:
        InvalidArgumentError: no such text, too long, of another version, or with something that is not known.
        TypeError: `text` is no text, or `programs` no mapping.
        KeyboardInterrupt: Ctrl-C; there is no session then.

    Warns:
        UserWarning: the run differs from the one that was shared: its program was another, or another version of it.

    Example:
        >>> import simdist as sd
        >>> def wait(cluster):
        ...     sd.sleep(2.0, cluster)
        >>> session = sd.Session(wait, sd.Cluster({"worker": 2}))
        >>> session.advance(until=1.0)
        >>> sd.open_share(sd.share(session), programs={"wait": wait}).now
        1.0
    """
    if not isinstance(cast("object", programs), Mapping):
        raise TypeError(f"programs is {programs!r:.200}; expected programs by their names, such as {{'program': program}}")
    given = _decoded(text)
    if set(given) != FIELDS:
        raise InvalidArgumentError(f"This is no session: it has the fields {sorted(given)}; expected {sorted(FIELDS)}.")
    name = given["program"]
    if not isinstance(name, str) or name not in programs:
        raise InvalidArgumentError(f"The program {name!r:.200} was not given. {did_you_mean(str(name)[:200], programs)}")
    if not isinstance(given["commands"], list):
        raise InvalidArgumentError("This is no session: its commands are no list.")
    commands = [command_from_plain(item) for item in cast("list[Any]", given["commands"])]
    moment = _moment(given["moment"])
    session = Session(programs[name], cluster_from_plain(given["cluster"]), commands)
    try:
        if session.moment() != moment or session.digest() != given["digest"]:  # else it was shared before its program began
            session.advance_to(moment)
    except BaseException as error:
        # A program that has failed is shared in its failed state; Ctrl-C is no failure of it.
        if error is not session.error or isinstance(error, KeyboardInterrupt):
            raise
    if session.digest() != given["digest"]:
        warnings.warn(
            f"The run of {name!r} differs from the one that was shared: the program that was given is another, or another version of it.",
            stacklevel=2,
        )
    return session


def _moment(given: Any) -> Moment:
    if not isinstance(given, list) or len(cast("list[Any]", given)) != 3 or not isinstance(given[2], bool):
        raise InvalidArgumentError(f"This is no moment: {given!r:.200}; expected [seconds, events, whether it is over].")
    try:
        return Moment(*given)
    except TypeError as error:
        raise InvalidArgumentError(f"This is no moment: {error}") from error


def _encoded(described: str) -> str:
    packed = base64.urlsafe_b64encode(zlib.compress(described.encode(), 9)).decode()
    return f"{FORMAT}:{VERSION}:{zlib.crc32(packed.encode()):08x}:{packed}"


def _decoded(text: str) -> dict[str, Any]:
    if not isinstance(cast("object", text), str):
        raise TypeError(f"open_share was given {text!r:.200}; expected the text that share(session) made")
    if len(text) > LONGEST_TEXT:
        raise InvalidArgumentError(f"The text has {len(text):,} characters; a shared session has {LONGEST_TEXT:,} at most.")
    parts = text.strip().split(":")
    if len(parts) != 4 or parts[0] != FORMAT:
        raise InvalidArgumentError(f"This is no shared session: {text!r:.60}; it begins with '{FORMAT}:'.")
    _, version, checksum, packed = parts
    if version != VERSION:
        raise InvalidArgumentError(f"version={version!r:.60} of a shared session is not known. Known: {VERSION!r}.")
    if not packed.isascii() or checksum != f"{zlib.crc32(packed.encode()):08x}":
        raise InvalidArgumentError("The text of the shared session is damaged: a part of it is missing, or was changed. Copy all of it.")
    return _unpacked(packed)


def _unpacked(packed: str) -> dict[str, Any]:
    unpacking = zlib.decompressobj()
    try:
        described = unpacking.decompress(base64.b64decode(packed, altchars=b"-_", validate=True), LONGEST_JSON)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise InvalidArgumentError(f"The shared session is longer than {LONGEST_JSON:,} characters, or its end is missing.")
        given: Any = json.loads(described)
    except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"This is no shared session: {error}.") from error
    if not isinstance(given, dict):
        raise InvalidArgumentError("This is no shared session: its text holds no description.")
    return cast("dict[str, Any]", given)
