"""Defects of parameter servers, each as a patch of a few lines: in the queue, in rounds, in the server loop, in the recovery of servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simdist.coordinator.bounded import BoundedStaleness
from simdist.coordinator.queue import ClosureDecision, ClosureQueue
from simdist.runtime.simulated import rounds
from simdist.runtime.simulated.calls import Call, ServerCall
from simdist.runtime.simulated.chain import Chain
from simdist.runtime.simulated.remembered import Remembered, Remembers
from simdist.runtime.simulated.round_call import ApplyingRound
from simdist.runtime.simulated.round_order import in_order
from simdist.runtime.simulated.rounds import KeptUpdate, RoundServer
from simdist.runtime.simulated.server_recovery import Change, Held, ServerRecovery

__all__ = ["NARROW", "PLANTED"]

Plant = Callable[[pytest.MonkeyPatch], None]

# -- queue and policy ------------------------------------------------------------------------------------------------------


def closures_of_dead_workers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What a worker ran when it died is not put back."""
    worker_down = ClosureQueue.worker_down

    def forgetful(queue: ClosureQueue, worker: str) -> list[ClosureDecision]:
        attempt = queue.running.get(worker)
        decisions = worker_down(queue, worker)
        if attempt is not None and attempt.closure in queue.queue:
            queue.queue.remove(attempt.closure)
        return decisions

    patch.setattr(ClosureQueue, "worker_down", forgetful)


def workers_that_left_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A round is not complete before a dead worker has added to it."""
    patch.setattr(BoundedStaleness, "left", lambda policy, worker: policy.working.pop(worker, None))


# -- server loop -----------------------------------------------------------------------------------------------------------


def updates_that_come_twice_are_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """A server does not know what it has applied."""
    patch.setattr(Remembered, "has", lambda known, push, part: False)


def reads_do_not_wait_for_their_round(patch: pytest.MonkeyPatch) -> None:
    """A step reads what is there, also where the round before it is not applied."""
    patch.setattr(RoundServer, "wait", lambda rounds, needs, asked, leg: False)


def the_last_update_of_a_round_is_left_out(patch: pytest.MonkeyPatch) -> None:
    """A round with several updates is applied without the last one."""

    def sloppy(attempts: Any) -> Any:
        return [updates[:-1] if len(updates) > 1 else updates for updates in in_order(attempts)]

    patch.setattr(rounds, "in_order", sloppy)


def updates_of_the_next_round_are_dropped_with_this_one(patch: pytest.MonkeyPatch) -> None:
    """What was kept for later rounds is gone when a round is applied."""
    keep = RoundServer.keep

    def careless(rounds: RoundServer, ticket: int, kept: KeptUpdate) -> None:
        if kept.clock <= rounds.applied:
            keep(rounds, ticket, kept)

    patch.setattr(RoundServer, "keep", careless)


def a_round_is_done_where_one_server_did_not_answer(patch: pytest.MonkeyPatch) -> None:
    """A call that failed counts as one that was answered."""

    def hopeful(applying: ApplyingRound, call: Call, error: BaseException) -> None:
        applying._end(None)

    patch.setattr(ApplyingRound, "unanswered", hopeful)


# -- recovery --------------------------------------------------------------------------------------------------------------


def changes_are_confirmed_before_the_copy_has_them(patch: pytest.MonkeyPatch) -> None:
    """What a client was told may be lost with its server."""
    changed = Chain.changed

    def hasty(chain: Chain, change: Change) -> None:
        done, change.done = change.done, lambda: None
        changed(chain, change)
        done()

    patch.setattr(Chain, "changed", hasty)


def what_was_taken_back_is_remembered(patch: pytest.MonkeyPatch) -> None:
    """An update that died with its server is taken for a repetition when it is sent again."""

    def stubborn(known: Remembered, push: Remembers, part: ServerCall) -> None:
        return None

    patch.setattr(Remembered, "take_back", stubborn)


def one_shard_is_not_brought_back(patch: pytest.MonkeyPatch) -> None:
    """Of all that a server held, the first group is left out."""
    held = ServerRecovery.held

    def most(recovery: ServerRecovery) -> Held:
        return dict(list(held(recovery).items())[1:])

    patch.setattr(Chain, "held", most)


def numbers_of_versions_go_back(patch: pytest.MonkeyPatch) -> None:
    """A server that is restored counts from what was saved, so that a number stands for two versions."""
    patch.setattr(ServerRecovery, "_rolled_back", lambda self, saved, held: saved)


def changes_that_are_not_safe_stay(patch: pytest.MonkeyPatch) -> None:
    """A server that is restored has also what was not confirmed; its clients send it again."""

    def proud(chain: Chain) -> Held | None:
        chain.log.clear()
        forget_all(chain)
        return chain.held() if chain.has_copy else None

    def forget_all(chain: Chain) -> None:
        chain.world.servers[chain.task.name].remembered.clear()

    patch.setattr(Chain, "_saved", proud)


PLANTED: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        closures_of_dead_workers_are_forgotten,
        workers_that_left_are_waited_for,
        updates_that_come_twice_are_applied_twice,
        reads_do_not_wait_for_their_round,
        the_last_update_of_a_round_is_left_out,
        updates_of_the_next_round_are_dropped_with_this_one,
        a_round_is_done_where_one_server_did_not_answer,
        changes_are_confirmed_before_the_copy_has_them,
        one_shard_is_not_brought_back,
        numbers_of_versions_go_back,
    )
}
"""Those that a campaign finds within some hundred scenarios."""

NARROW: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (changes_are_confirmed_before_the_copy_has_them, what_was_taken_back_is_remembered, changes_that_are_not_safe_stay)
}
"""Those that need a server to die within microseconds."""
