"""Arrays at the border of a program, and the memory that they lie in."""
