"""Flows on shared links, here and in SimGrid, an independent flow-level simulator (https://simgrid.org).

    python benchmarks/simgrid_flows.py --export flows.json      our results for 200 random flow sets; needs no SimGrid
    python3 benchmarks/simgrid_flows.py --compare flows.json    SimGrid's results for the same sets; needs only SimGrid
    python benchmarks/simgrid_flows.py                          both, where one interpreter has both

SimGrid is in Debian as python3-simgrid, for the system's own Python; that is why the two halves can run apart. A flow set
agrees when every flow's end is within 1 % of SimGrid's.

SimGrid's default network model (LV08) fits TCP: it adds constants of its own, which are set neutral here, because the
question is whether sharing is computed alike, not whether links are TCP:

    network/bandwidth-factor:1   a link carries its whole bandwidth, not 0.97 of it
    network/weight-S:0           a flow's share does not depend on the bandwidths of its links (default 20,537)
    network/crosstraffic:0       a flow loads only its own direction, not the way back with 5 % acknowledgements
    network/TCP-gamma:0          no TCP window: a flow is not limited to window / (2 x latency)

One thing cannot be set: SimGrid divides a link in inverse proportion to the latencies of the flows' routes, as TCP would.
So its links have no latency here, and a message begins to be sent when the latencies of its links are over, as ours does.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

SETS, SEED, TOLERANCE = 200, 0, 0.01
NEUTRAL = ["network/bandwidth-factor:1", "network/weight-S:0", "network/crosstraffic:0", "network/TCP-gamma:0"]
MISSING = """SimGrid's Python bindings are not installed here, so there is nothing to compare with.
On Debian: sudo apt install python3-simgrid, then run this script with the system's python3.
Our own results need no SimGrid: python benchmarks/simgrid_flows.py --export flows.json"""

FlowSet = dict[str, Any]


def flow_sets(count: int, seed: int) -> list[FlowSet]:
    """Random links, and flows over one to three of them; whole bytes, because SimGrid takes no others."""
    from simdist.randomness import generator

    sets: list[FlowSet] = []
    for number in range(count):
        draw = generator(seed, "simgrid flows", number)
        links = [
            {"bandwidth": float(draw.choice([1e6, 2e6, 5e6, 1e7])), "latency": float(draw.choice([0.0, 1e-4, 1e-3]))}
            for _ in range(draw.integers(2, 9))
        ]
        flows = [
            {
                "links": [int(link) for link in draw.choice(len(links), size=draw.integers(1, min(3, len(links)) + 1), replace=False)],
                "bytes": int(draw.integers(100_000, 20_000_000)),
                "start_s": float(draw.choice([0.0, float(draw.uniform(0.0, 10.0))])),
            }
            for _ in range(draw.integers(1, 21))
        ]
        sets.append({"links": links, "flows": flows})
    return sets


def first_byte_s(flow_set: FlowSet, flow: dict[str, Any]) -> float:
    """When a flow begins to use its links: after its start, by the sum of their latencies."""
    return flow["start_s"] + sum(flow_set["links"][link]["latency"] for link in flow["links"])


def our_ends(flow_set: FlowSet) -> list[float]:
    """When each flow ends, in our model."""
    from simdist.simulation.kernel import Clock
    from simdist.simulation.network import Link, SharedLinks

    clock = Clock()
    shared = SharedLinks(clock)
    links = [Link(f"link{number}", link["bandwidth"]) for number, link in enumerate(flow_set["links"])]
    ends: dict[int, float] = {}
    finished = clock.gate()

    def arrive(number: int) -> None:
        ends[number] = clock.now
        if len(ends) == len(flow_set["flows"]):
            finished.open()

    for number, flow in enumerate(flow_set["flows"]):
        route = [links[link] for link in flow["links"]]
        begin = lambda _, number=number, route=route, flow=flow: shared.start(route, flow["bytes"], lambda _: arrive(number))  # noqa: E731
        clock.after(first_byte_s(flow_set, flow), begin)
    clock.wait(finished)
    return [ends[number] for number in range(len(flow_set["flows"]))]


def platform(flow_set: FlowSet) -> str:
    """SimGrid's description of the links: two hosts for every flow, and the flow's route between them."""
    flows = range(len(flow_set["flows"]))
    hosts = [f'<host id="{side}{number}" speed="1Gf"/>' for number in flows for side in ("from", "to")]
    links = [
        f'<link id="link{number}" bandwidth="{link["bandwidth"]!r}Bps" latency="0s" sharing_policy="SHARED"/>'
        for number, link in enumerate(flow_set["links"])
    ]
    routes = [
        f'<route src="from{number}" dst="to{number}" symmetrical="NO">'
        + "".join(f'<link_ctn id="link{link}"/>' for link in flow["links"])
        + "</route>"
        for number, flow in enumerate(flow_set["flows"])
    ]
    head = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
    body = "\n".join([*hosts, *links, *routes])
    return f'{head}\n<platform version="4.1">\n<zone id="all" routing="Full">\n{body}\n</zone>\n</platform>\n'


def simgrid_ends(flow_set: FlowSet) -> list[float]:
    """When each flow ends in SimGrid. A process can hold one of its engines only, so this runs in a process of its own."""
    import simgrid  # pyright: ignore[reportMissingImports]

    engine = simgrid.Engine(["simgrid_flows", "--log=root.thresh:critical", *(f"--cfg={option}" for option in NEUTRAL)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "platform.xml")
        path.write_text(platform(flow_set), encoding="utf-8")
        engine.load_platform(str(path))
    hosts = {host.name: host for host in (engine.all_hosts if hasattr(engine, "all_hosts") else engine.get_all_hosts())}
    ends: dict[int, float] = {}

    def now() -> float:
        return engine.clock if hasattr(engine, "clock") else engine.get_clock()

    def send(number: int, flow: dict[str, Any]) -> None:
        simgrid.this_actor.sleep_until(first_byte_s(flow_set, flow))
        simgrid.Mailbox.by_name(f"box{number}").put(number, flow["bytes"])

    def receive(number: int) -> None:
        simgrid.Mailbox.by_name(f"box{number}").get()
        ends[number] = now()

    for number, flow in enumerate(flow_set["flows"]):
        simgrid.Actor.create(f"send{number}", hosts[f"from{number}"], send, number, flow)
        simgrid.Actor.create(f"receive{number}", hosts[f"to{number}"], receive, number)
    engine.run()
    return [ends[number] for number in range(len(flow_set["flows"]))]


def agree(ours: list[float], theirs: list[float], tolerance: float = TOLERANCE) -> bool:
    return len(ours) == len(theirs) and all(abs(a - b) <= tolerance * b for a, b in zip(ours, theirs, strict=True))


def export(path: Path, count: int) -> list[FlowSet]:
    """Write flow sets and our ends to a file, which is the same on every run."""
    sets = [{**flow_set, "ends_s": our_ends(flow_set)} for flow_set in flow_sets(count, SEED)]
    path.write_text(json.dumps(sets, indent=1) + "\n", encoding="utf-8")
    print(f"{len(sets)} flow sets with {sum(len(item['flows']) for item in sets)} flows written to {path}")
    return sets


def compare(sets: list[FlowSet]) -> bool:
    """Run every set in SimGrid and print how many agree."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        results = pool.map(simgrid_ends, sets, chunksize=1)
    different = [number for number, (item, theirs) in enumerate(zip(sets, results, strict=True)) if not agree(item["ends_s"], theirs)]
    print(f"{len(sets) - len(different)} of {len(sets)} flow sets agree within {TOLERANCE:.0%}")
    for number in different[:5]:
        print(f"  set {number}: ours {sets[number]['ends_s']}, SimGrid's {results[number]}")
    return not different


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Flows on shared links, here and in SimGrid.")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write our results, and do not compare")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="compare the results in this file with SimGrid")
    parser.add_argument("--quick", action="store_true", help="5 flow sets only")
    arguments = parser.parse_args(given)
    count = 5 if arguments.quick else SETS
    if arguments.export is not None:
        export(arguments.export, count)
        return 0
    if importlib.util.find_spec("simgrid") is None:
        print(MISSING, file=sys.stderr)
        return 2
    if arguments.compare is not None:
        return 0 if compare(json.loads(arguments.compare.read_text(encoding="utf-8"))) else 1
    with tempfile.TemporaryDirectory() as folder:
        return 0 if compare(export(Path(folder, "flows.json"), count)) else 1


if __name__ == "__main__":
    sys.exit(main())
