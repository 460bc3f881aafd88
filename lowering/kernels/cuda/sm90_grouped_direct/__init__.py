"""Direct convolution of groups of 32 channels on Hopper, two output rows at a time."""
