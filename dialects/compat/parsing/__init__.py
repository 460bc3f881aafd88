"""MLIR's text, read as MLIR reads it."""
