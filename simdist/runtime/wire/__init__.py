"""What crosses between a driver and its tasks, as bytes: programs, kernels, arrays, requests and replies.

Any engine whose tasks share no memory can send exactly these bytes. Nothing in them is code of Python: there is no pickle, and a
kernel is StableHLO, as `jax.export` writes it. What only the driver needs stays there: variables, optimizers, datasets, how results
are put back into the structure that a step returned.

Invariants:

- Every message carries the version of the format, its length and a checksum; what was damaged, cut off, or written by another
  version is refused.
- Decoded values share no memory with those that were encoded.
"""

from __future__ import annotations

from simdist.runtime.wire.codec import VERSION, Plain, decode, encode
from simdist.runtime.wire.kernels import decode_kernel, encode_kernel
from simdist.runtime.wire.programs import RemoteProgram, decode_program, encode_program

__all__ = [
    "VERSION",
    "Plain",
    "RemoteProgram",
    "decode",
    "decode_kernel",
    "decode_program",
    "encode",
    "encode_kernel",
    "encode_program",
]
