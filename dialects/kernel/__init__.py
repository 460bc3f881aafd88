"""The kernel dialect: what will be one launch."""
