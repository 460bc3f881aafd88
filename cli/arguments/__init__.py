"""Command lines: parsers, and what their arguments mean."""
