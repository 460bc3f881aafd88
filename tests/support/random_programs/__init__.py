"""Random programs: one generator, asked by the property tests and by `tests/fuzz.py`."""
