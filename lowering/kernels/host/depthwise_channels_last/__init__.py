"""Depthwise convolutions whose channels are contiguous."""
