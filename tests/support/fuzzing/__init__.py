"""The campaign of `tests/fuzz.py`: random programs through random passes, and what must hold."""
