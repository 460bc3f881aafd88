"""`--compile-to`: the stations on the way from text to a program, and what can be printed."""

from __future__ import annotations

from convir.lowering.stages import STAGES as LOWERING_STAGES

INPUT = "input"
"""The module as it was read."""
TENSOR = "tensor"
"""The module after the passes on tensors."""

STAGES = (INPUT, TENSOR, *LOWERING_STAGES)
"""Every stage there is, in order."""

DEFAULT_PIPELINE = "backward-data"
"""What leads to a stage beyond `input` where the command line names no passes."""

TARGETS = ("mlir",)
"""What can be printed."""

DEVICES = ("host", "cuda")
"""Whose kernels can be selected."""
