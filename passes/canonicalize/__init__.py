"""`canonicalize`: every operation in its simplest equivalent form."""
