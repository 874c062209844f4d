"""Evaluation and prediction: calls and their passes over the data, on the tasks of a strategy."""
