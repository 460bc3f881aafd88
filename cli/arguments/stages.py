"""`--compile-to`: the stations on the way from text to a program, and what can be printed."""

from __future__ import annotations

from convir.lowering.stages import STAGES as LOWERING_STAGES

INPUT = "input"
"""The module as it was read."""
TENSOR = "tensor"
"""The module after the passes on tensors."""

STAGES = (INPUT, TENSOR, *LOWERING_STAGES)
"""Every stage there is, in order."""

DEFAULT_PIPELINE = "default"
"""What leads to a stage beyond `input` where the command line names no passes."""

MLIR = "mlir"

CODE_DEVICES = {"llvm": "host", "cuda": "cuda"}
"""What can be printed of kernels, and the device that they are selected for."""

TARGETS = (MLIR, *CODE_DEVICES)
"""What can be printed."""

DEVICES = ("host", "cuda")
"""Whose kernels can be selected."""
