"""`--compile-to` and `--dump-stages-to`: the stations on the way from text to code."""

from __future__ import annotations

from pathlib import Path

from convir.cli.arguments import UsageError
from convir.cli.streams import write_output

INPUT = "input"
"""The module as it was read."""
TENSOR = "tensor"
"""The module after the graph passes: still tensors."""

STAGES = (INPUT, TENSOR)
"""Every stage there is, in order."""

DEFAULT_PIPELINE = "backward-data"
"""What leads to a stage beyond `input` where the command line names no passes."""

TARGETS = ("mlir",)
"""What can be printed."""


def prepare_folder(path: str) -> Path:
    """Create the folder for the dumps.

    Raises:
        UsageError: it is a file, or cannot be created.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"{path}: {exc.strerror}") from exc
    return folder


def dump(folder: Path, stem: str, stage: str, text: str) -> None:
    """Write the module at `stage` to `folder/STEM.NUMBER-STAGE.mlir`."""
    write_output(str(folder / f"{stem}.{STAGES.index(stage)}-{stage}.mlir"), text)
