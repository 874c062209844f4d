"""TensorFlow's in-process cluster, as its tutorial of parameter servers sets it up: a server for each task, in this process."""

from __future__ import annotations

import socket
from typing import Any

__all__ = ["in_process_cluster"]


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def in_process_cluster(workers: int, servers: int) -> tuple[Any, list[Any]]:
    """The strategy, and the servers of all tasks, which run for as long as they are kept."""
    import tensorflow as tf

    ports = _free_ports(workers + servers)
    jobs = {"worker": ports[:workers], "ps": ports[workers:]}
    spec = tf.train.ClusterSpec({job: [f"localhost:{port}" for port in given] for job, given in jobs.items()})
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=max(2, workers + 1))
    running = [
        tf.distribute.Server(spec, job_name=job, task_index=index, config=config, protocol="grpc")
        for job, given in jobs.items()
        for index in range(len(given))
    ]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    return tf.distribute.ParameterServerStrategy(resolver), running
