"""Late numbers: calls are written down in order, and computed when somebody reads a value."""
