"""Direct convolution to a few output channels, such as the dgrad of a first layer."""
