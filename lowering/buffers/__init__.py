"""Tensors become buffers in one planned arena, in chunks of the batch where they are too large."""
