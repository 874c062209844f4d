"""Interactive pictures of a simulated cluster, for notebooks and for pages that open without a server.

A widget is a view of data that the engine recorded; it never changes the run. Each one shows itself in three ways:
live in Jupyter, as a static picture where no widget can run, and as a self-contained page (`export_html`).
"""

from simdist.extras import needs

with needs("simdist_widgets", "lab"):
    from simdist_widgets.collective_stepper import CollectiveStepper
    from simdist_widgets.fault_console import FaultConsole
    from simdist_widgets.host_page import export_page
    from simdist_widgets.lab import Lab
    from simdist_widgets.recovery_story import Recovery
    from simdist_widgets.shard_map import PlacementRecord, ShardMap
    from simdist_widgets.timeline import Timeline
    from simdist_widgets.topology import Topology

__all__ = ["CollectiveStepper", "FaultConsole", "Lab", "PlacementRecord", "Recovery", "ShardMap", "Timeline", "Topology", "export_page"]
