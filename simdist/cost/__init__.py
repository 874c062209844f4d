"""What kernels cost: operations, bytes, memory, when their results are ready, and how often loops run."""
