"""Convolutions that were timed beside cuDNN, by GPU."""
