"""A script on a whole cluster: ``python -m simdist run script.py --cluster cluster.toml``.

The file describes a cluster (`cluster_file.py`), and the script runs once for each of its tasks, as that task's main (`script.py`). What
became of it is printed at the end (`outcome.py`).
"""

from simdist.launcher.cluster_file import ClusterFile, read_cluster_file
from simdist.launcher.command import run_command
from simdist.launcher.outcome import Outcome
from simdist.launcher.script import Script, run_script

__all__ = ["ClusterFile", "Outcome", "Script", "read_cluster_file", "run_command", "run_script"]
