"""A strided scatter into zeros, in one pass over the result."""
