"""Direct convolution of many small groups, by mma.sync or wgmma."""
