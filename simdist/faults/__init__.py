"""Faults: what breaks, when, and for how long; as plain data that knows no engine."""
