"""The whole path in one call, for Python."""
