"""What `torch.compile(…, backend="convir", options={…})` may say."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Options:
    """How pieces are compiled."""

    pipeline: str = "default"
    """Passes to run before lowering, as `convir.compile` takes them."""
    allow_tf32: bool = False
    """Whether f32 may be rounded to TF32 where it is multiplied, on a GPU."""
    workspace_bytes: int | None = None
    """The most that temporaries of a piece may take; None for no limit."""
    autotune: bool = False
    """Whether the likely configs of kernels are measured first, as `convir.compile` takes it."""
    constants: bool = True
    """Whether parameters and buffers are constants of the program, which is compiled again where
    they are written to."""
    cuda_graphs: bool = True
    """Whether graphs on a GPU are captured at their second call, and replayed from then on."""


def options_of(given: Mapping[str, Any] | None) -> Options:
    """The options by their names.

    Raises:
        ValueError: there is no such option.
    """
    known = [field.name for field in fields(Options)]
    for name in given or {}:
        if name not in known:
            raise ValueError(f"backend convir has no option '{name}'; it has {', '.join(known)}")
    return Options(**(given or {}))
