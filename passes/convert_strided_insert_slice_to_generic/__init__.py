"""`convert-strided-insert-slice-to-generic`: a scatter as one pass over its result."""
