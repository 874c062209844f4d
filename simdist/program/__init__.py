"""Steps as data: tracing, cutting, kernels, their cost, and the ledger that computes them late."""
