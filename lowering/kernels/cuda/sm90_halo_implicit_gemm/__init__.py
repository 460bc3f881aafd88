"""Contractions of several taps whose rows of A, with their halo, are in shared memory once."""
