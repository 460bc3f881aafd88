"""Programs for signatures, compiled in the background by processes of their own."""
