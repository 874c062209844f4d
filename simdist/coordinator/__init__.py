"""Closures on workers: the queue that decides, the coordinator that carries out, remote and per-worker values."""
