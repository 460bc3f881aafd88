"""What ran when in one call of a program, on each thread of the host or on a stream of a GPU."""
