"""Collectives: how ranks bring their data together, one file for each algorithm.

Taught in lesson 03.
"""
