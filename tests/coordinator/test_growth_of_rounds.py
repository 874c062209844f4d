"""What rounds cost: no decision looks at all workers."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.coordinator.bounded import BoundedStaleness


@pytest.mark.parametrize("staleness", [0, 2])
def test_a_round_looks_at_each_worker_a_few_times_however_many_there_are(staleness: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, may_begin = list[str](), BoundedStaleness.may_begin

    def counted(policy: BoundedStaleness, worker: str) -> bool:
        looks.append(worker)
        return may_begin(policy, worker)

    monkeypatch.setattr(BoundedStaleness, "may_begin", counted)
    count, rounds = 100, 3
    names = [f"worker:{number}" for number in range(count)]
    policy, idle = BoundedStaleness({name: rank for rank, name in enumerate(names)}, staleness), dict.fromkeys(names)
    for name in names:
        policy.joined(name)
    for number in range(rounds):
        chosen = list[str]()
        while (worker := policy.choose(idle)) is not None and len(chosen) < count:
            del idle[worker]
            policy.began(worker)
            chosen.append(worker)
        assert chosen == names
        for name in names:
            policy.completed(name, ticket=0, closure=number)
            policy.ended(name, True)
            idle[name] = None
        assert len(policy.complete_rounds(False)) == 1
    assert len(looks) <= 4 * count * rounds  # one that looked at all of them each time would have done so 15,000 times


def test_a_worker_that_is_known_joins_without_a_search_of_all_ranks() -> None:
    class Ranks(dict[str, int]):
        searches = 0

        def values(self) -> Any:
            self.searches += 1
            return super().values()

    policy = BoundedStaleness({}, 0)
    policy.ranks = ranks = Ranks({f"worker:{number}": number for number in range(100)})
    for name in list(ranks):
        policy.joined(name)
    assert ranks.searches == 0
    policy.joined("worker:100")
    assert (ranks.searches, ranks["worker:100"]) == (1, 100)
