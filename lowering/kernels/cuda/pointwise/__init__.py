"""Pointwise convolutions (1x1) from up to 128 input channels: a stream of pixels past a resident
filter."""
