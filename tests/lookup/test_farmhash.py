"""FarmHash64 gives TensorFlow's buckets."""

from __future__ import annotations

import pytest

from simdist.lookup.farmhash import bucket, fingerprint64

TEXT = "the quick brown fox jumps over the lazy dog " * 6
# tf.strings.to_hash_bucket_fast([TEXT[:size]], 2**62) of TensorFlow 2.21, by size: one or more of each branch.
TENSORFLOW = {
    0: 1936946117179621455,
    1: 2347136789225993817,
    3: 2392203249141657450,
    4: 1001158104500252861,
    7: 1772533008485499016,
    8: 3589619361798732030,
    16: 1440586843996968230,
    17: 2098926860416782725,
    32: 4208312781013932239,
    33: 1496114499496305613,
    63: 1971854185979124427,
    64: 3156187156112676240,
    65: 4090744603156993131,
    127: 3426610911034567231,
    128: 4025820741535594437,
    129: 3516650716482532105,
    192: 941349995902889196,
    250: 524081830887709166,
}


@pytest.mark.parametrize("size", TENSORFLOW)
def test_fingerprints_are_those_of_tensorflow(size: int) -> None:
    assert fingerprint64(TEXT[:size].encode()) % 2**62 == TENSORFLOW[size]
    assert bucket(TEXT[:size], 2**62) == TENSORFLOW[size]


def test_buckets_are_of_utf_8_bytes() -> None:
    assert bucket("é", 1000) == fingerprint64(b"\xc3\xa9") % 1000
