"""Wgrad of groups of 32 channels on Hopper, two rows at a time."""
