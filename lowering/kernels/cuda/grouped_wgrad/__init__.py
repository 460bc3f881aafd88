"""Wgrad of many small groups, rows streamed once."""
