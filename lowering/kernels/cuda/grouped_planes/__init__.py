"""`grouped_planes`: grouped convolutions of operands in planes (NCHW), all directions."""
