"""Lookup tables and the layers that look words up: in numpy, without TensorFlow.

Taught in lesson 06.
"""

from simdist.lookup.integer_lookup import IntegerLookup
from simdist.lookup.static_hash_table import KeyValueTensorInitializer, StaticHashTable
from simdist.lookup.string_lookup import StringLookup
from simdist.lookup.text_vectorization import TextVectorization

__all__ = ["IntegerLookup", "KeyValueTensorInitializer", "StaticHashTable", "StringLookup", "TextVectorization"]
