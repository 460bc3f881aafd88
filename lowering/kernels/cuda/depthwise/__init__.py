"""Depthwise convolution: channels as planes, filter rows as banded matrices."""
