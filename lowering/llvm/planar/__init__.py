"""Stages on rows of frames as LLVM IR: registers and vectors are chosen at compile time."""
