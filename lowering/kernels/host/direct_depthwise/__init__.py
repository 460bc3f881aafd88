"""Depthwise convolutions, channels first: vectors of neighbouring pixels."""
