"""`decompose-strided-dgrad`: a strided backward data convolution is several dense ones."""
