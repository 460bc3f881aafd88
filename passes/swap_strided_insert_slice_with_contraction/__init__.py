"""`swap-strided-insert-slice-with-contraction`: contract first, scatter the smaller result."""
