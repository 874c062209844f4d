"""Strategies: where variables are placed and where steps run, one file for each."""
