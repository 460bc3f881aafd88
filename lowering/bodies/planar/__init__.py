"""Chains of convolutions along frames and what lies between them: from a kernel's tensor body to
stages on rows of frames, as plain data."""
