"""Depthwise convolutions, channels first: vectors of adjacent pixels."""
