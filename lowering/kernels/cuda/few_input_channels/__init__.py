"""Direct convolution from a few input channels, such as a first layer."""
