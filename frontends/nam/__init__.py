"""Neural amp models (`.nam`) come in, modules go out: one function for a block of frames.

A WaveNet becomes `conv.fprop` ops on planar tensors (`1 x channels x frames`), and `linalg` and
`tensor` ops for everything between them, so that every pass and device works on what was imported.
What a convolution remembers of earlier blocks is an argument of the function, and the same after
the block is a result. Weights stay in the model's file (`#conv.blob`).
A newcomer reads `model` (what a model says, as data) → `read` (from JSON) → `importer` (to IR).
"""
