"""PyTorch's graphs of ATen calls, spelled as nodes of ONNX's operators: one home for what a pooling
or a normalisation means (`convir.frontends.onnx.ops`)."""
