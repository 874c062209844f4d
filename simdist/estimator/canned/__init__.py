"""Estimators whose model function is here already: linear models and deep networks, on feature columns."""
