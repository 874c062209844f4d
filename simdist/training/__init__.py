"""Keras models that know strategies, and the loop that trains them."""
