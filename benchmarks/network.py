"""Messages over shared links, each with one start and one completion, against bare SimPy time-outs in the same run."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

import simpy

from simdist.simulation.kernel import Clock
from simdist.simulation.network import Link, SharedLinks

BANDWIDTH = 1e9


class Cluster:
    """Workers that read a shard from every server, compute for a while, and push as much back."""

    def __init__(self, workers: int, shards: list[float], rounds: int, compute_s: Callable[[int], float]) -> None:
        self.clock = Clock()
        self.shared = SharedLinks(self.clock)
        self.server_ins = [Link(f"ps:{i}/in", BANDWIDTH) for i in range(len(shards))]
        self.server_outs = [Link(f"ps:{i}/out", BANDWIDTH) for i in range(len(shards))]
        self.ins = [Link(f"worker:{i}/in", BANDWIDTH) for i in range(workers)]
        self.outs = [Link(f"worker:{i}/out", BANDWIDTH) for i in range(workers)]
        self.shards, self.rounds, self.compute_s = shards, [rounds] * workers, compute_s
        self.open = [0] * workers
        self.messages = workers * rounds * 2 * len(shards)

    def read(self, worker: int) -> None:
        if self.rounds[worker]:
            self.rounds[worker] -= 1
            self.open[worker] = len(self.shards)
            port, outs = self.ins[worker], self.server_outs
            self.shared.start_all([((outs[i], port), size, self.arrived, worker) for i, size in enumerate(self.shards)])

    def arrived(self, worker: int) -> None:
        self.open[worker] -= 1
        if not self.open[worker]:
            self.clock.after(self.compute_s(worker), self.push, worker)

    def push(self, worker: int) -> None:
        self.open[worker] = len(self.shards)
        port, ins = self.outs[worker], self.server_ins
        self.shared.start_all([((port, ins[i]), size, self.pushed, worker) for i, size in enumerate(self.shards)])

    def pushed(self, worker: int) -> None:
        self.open[worker] -= 1
        if not self.open[worker]:
            self.read(worker)

    def run(self) -> tuple[int, SharedLinks]:
        for worker in range(len(self.ins)):
            self.clock.after(0.0, self.read, worker)
        self.clock.sleep(1e6)
        assert not any(self.open)
        return self.messages, self.shared


def fan_in(rounds: int) -> tuple[int, SharedLinks]:
    """64 senders, each with its next message when the last one has arrived."""
    clock = Clock()
    shared, port = SharedLinks(clock), Link("in", BANDWIDTH)
    outs = [Link(f"out{i}", BANDWIDTH) for i in range(64)]
    left = [rounds] * 64

    def send(sender: int) -> None:
        if left[sender]:
            left[sender] -= 1
            shared.start((outs[sender], port), 1e4 + sender, send, sender)

    for sender in range(64):
        send(sender)
    clock.sleep(1e6)
    return 64 * rounds, shared


def lone(rounds: int) -> tuple[int, SharedLinks]:
    """One message at a time."""
    clock = Clock()
    shared, route, left = SharedLinks(clock), (Link("out", BANDWIDTH), Link("in", BANDWIDTH)), [rounds]

    def send(_: None) -> None:
        if left[0]:
            left[0] -= 1
            shared.start(route, 1e4, send)

    send(None)
    clock.sleep(1e6)
    return rounds, shared


def unequal_shards(rounds: int) -> tuple[int, SharedLinks]:
    return Cluster(300, [40e3, 4e3], rounds, lambda worker: 1e-3 + 1e-5 * (worker % 37)).run()


def idle_servers(rounds: int) -> tuple[int, SharedLinks]:
    return Cluster(300, [40e3, 4e3], rounds, lambda worker: 24e-3 + 1e-5 * worker).run()


def equal_shards(rounds: int) -> tuple[int, SharedLinks]:
    return Cluster(1_000, [10e3, 10e3], rounds, lambda _: 1e-3).run()


def timeouts(count: int) -> float:
    """SimPy time-outs a second."""
    env = simpy.Environment()

    def sleeper():
        for _ in range(count):
            yield env.timeout(1.0)

    env.process(sleeper())
    began = time.perf_counter()
    env.run()
    return count / (time.perf_counter() - began)


Case = Callable[[int], tuple[int, SharedLinks]]
CASES: list[tuple[str, Case, int]] = [  # with so many rounds of messages
    ("64 senders into one port", fan_in, 2_000),
    ("one message at a time", lone, 100_000),
    ("300 workers, shards of 40 and 4 kB, busy servers", unequal_shards, 40),
    ("300 workers, shards of 40 and 4 kB, at half load", idle_servers, 40),
    ("1,000 workers in step, two shards of 10 kB", equal_shards, 12),
]


def measure(case: Case, rounds: int) -> tuple[float, SharedLinks]:
    """Messages a second."""
    gc.collect()
    began = time.perf_counter()
    messages, shared = case(rounds)
    return messages / (time.perf_counter() - began), shared


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Messages over shared links against bare SimPy time-outs.")
    parser.add_argument("--quick", action="store_true", help="a small sample: one round of every case")
    quick = parser.parse_args(arguments).quick
    bare = max(timeouts(2_000 if quick else 200_000) for _ in range(3))
    print(f"{'messages/s':<50} {'simdist':>10} {'bare SimPy':>11} {'ratio':>6} {'moves':>8} {'refills':>8}")
    for name, case, rounds in CASES:
        tries = [measure(case, 1 if quick else rounds) for _ in range(1 if quick else 3)]
        best, shared = max(tries, key=lambda result: result[0])
        print(f"{name:<50} {best:>10,.0f} {bare:>11,.0f} {best / bare:>6.2f} {shared.moves:>8,} {shared.refills:>8}")


if __name__ == "__main__":
    main()
