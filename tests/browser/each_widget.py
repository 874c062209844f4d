"""The lessons that CI runs in JupyterLab: together they have each kind of widget.

Their stored outputs are compared there, so that CI runs no lesson twice: `.ci/stages.py` reads this file, and nbval leaves them out.
"""

EACH_WIDGET = ("00", "01", "03a", "12")  # a timeline and a map of shards, a fault console, a stepper of collectives, and the Lab
