"""ONNX models come in, modules go out: one function on tensors of static shape.

`conv` ops stand for Conv and ConvTranspose, `linalg` and `tensor` ops for everything else, so that
every pass and device works on what was imported. Weights stay in the model's file (`#conv.blob`).
A newcomer reads `model` (what a model says) → `importer` (its nodes, in order) → `ops` (a file
for each family of operators, on the `emitter`).
"""
