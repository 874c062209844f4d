"""Packing: a few large collectives instead of many small ones.

A step pays its latency however little it carries, so small gradients are laid end to end and reduced together. But what is
packed must wait for its last gradient. Gradients are therefore packed in reverse order: the last layer's are
ready first, and its pack can be on its way while the first layers are still being computed.

The rule of `group_by_size` is TensorFlow's: a pack is closed once it has *exceeded* the limit, so packs are as
large as the limit or larger. With a limit of 0 there is no packing by size.

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.arguments import listed, whole_number
from simdist.errors import InvalidArgumentError

__all__ = ["group_by_size", "pack_gradients", "split_in_packs"]

MOST_PACKS = 1 << 24  # each is a number in a list


def group_by_size(sizes_bytes: Sequence[int], bytes_per_pack: int) -> list[list[int]]:
    """Groups of tensors that are reduced together, in the given order.

    Args:
        sizes_bytes: bytes of each tensor.
        bytes_per_pack: a new pack begins after one that has more bytes than this; 0: everything in one pack.

    Returns:
        For each pack the positions of its tensors; without tensors no pack.

    Raises:
        InvalidArgumentError: a negative limit.

    Example:
        >>> group_by_size([128, 32, 800, 4], bytes_per_pack=200)
        [[0, 1, 2], [3]]
        >>> group_by_size([4, 4, 4], bytes_per_pack=4)
        [[0, 1], [2]]
    """
    bytes_per_pack = whole_number(bytes_per_pack, "bytes_per_pack", 0)
    sizes_bytes = [whole_number(size, "a size in bytes", 0) for size in listed(sizes_bytes, "sizes_bytes", "numbers")]
    packs: list[list[int]] = []
    packed_bytes = 0
    for position, size_bytes in enumerate(sizes_bytes):
        if not packs or packed_bytes > bytes_per_pack > 0:
            packs.append([])
            packed_bytes = 0
        packs[-1].append(position)
        packed_bytes += size_bytes
    return packs


def pack_gradients(sizes_bytes: Sequence[int], dtypes: Sequence[object], bytes_per_pack: int = 0) -> list[list[int]]:
    """Packs of gradients that are reduced together: the last gradient first, one dtype for each pack.

    Args:
        sizes_bytes: bytes of each of n gradients, in the order of the variables. Leave sparse ones out: they are never packed.
        dtypes: the dtype of each of the n gradients.
        bytes_per_pack: as in `group_by_size`; 0, the default: one pack for each dtype.

    Returns:
        For each pack the positions of its gradients; dtypes in the order in which they first come up from the back.

    Raises:
        InvalidArgumentError: a negative limit, or not one dtype for each gradient.

    Example:
        >>> pack_gradients([400, 40, 4], ["float32", "float32", "float16"])
        [[2], [1, 0]]
        >>> pack_gradients([400, 40, 4], ["float32"] * 3, bytes_per_pack=40)
        [[2, 1], [0]]
    """
    sizes_bytes, dtypes = listed(sizes_bytes, "sizes_bytes", "numbers"), [*map(str, listed(dtypes, "dtypes", "dtypes"))]
    if len(dtypes) != len(sizes_bytes):
        raise InvalidArgumentError(f"Give one dtype for each gradient; got {len(dtypes)} for {len(sizes_bytes)}.")
    by_dtype: dict[object, list[int]] = {}
    for position in reversed(range(len(sizes_bytes))):
        by_dtype.setdefault(dtypes[position], []).append(position)
    return [
        [positions[index] for index in pack]
        for positions in by_dtype.values()
        for pack in group_by_size([sizes_bytes[position] for position in positions], bytes_per_pack)
    ]


def split_in_packs(total_elements: int, num_packs: int) -> list[int]:
    """The number of elements of each part when everything, laid end to end, is cut into so many parts.

    Args:
        total_elements: of all tensors together.
        num_packs: parts.

    Returns:
        Each part's elements: the total divided by the number of parts and rounded down; the last one takes what is left.

    Raises:
        InvalidArgumentError: less than one part, or less than 0 elements.

    Example:
        >>> split_in_packs(10, 4)
        [2, 2, 2, 4]
    """
    total_elements = whole_number(total_elements, "total_elements", 0)
    num_packs = whole_number(num_packs, "num_packs", 1, MOST_PACKS)
    each = total_elements // num_packs
    return [each] * (num_packs - 1) + [total_elements - each * (num_packs - 1)]
