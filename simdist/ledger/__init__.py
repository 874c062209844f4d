"""The ledger: kernel calls are recorded in order, and computed when a value is read."""
