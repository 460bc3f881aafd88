"""What others speak comes in, modules of `dialects` go out: MIOpenDriver lines, ONNX, `.nam`."""
