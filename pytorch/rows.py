"""The census: each shape and direction that was asked for, who ran it, how often, and why."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.pytorch.signature import Signature


@dataclass
class Row:
    """One direction of one convolution, on its way to a kernel of convir's or past it."""

    signature: Signature
    line: str = ""
    """As `convir-bench` reads it; empty where no MIOpenDriver line says it."""
    kernel: str = ""
    """What convir runs, where that is compiled."""
    reason: str = ""
    """Why PyTorch's kernel runs, or ours."""
    convir_calls: int = 0
    pytorch_calls: int = 0
    native_calls: list[tuple[bool, Any]] = field(default_factory=list[Any], repr=False)
    """Of calls without Python: whether convir runs them, and their counter."""
    convir_us: float | None = None
    pytorch_us: float | None = None
    run: Callable[..., Any] | None = field(default=None, repr=False)
    """What calls do; None where PyTorch's kernel runs."""
    words: Callable[[], tuple[int, ...] | None] | None = field(default=None, repr=False)
    """`run` for callers in machine code, once it has run there."""
    waiting: Any = field(default=None, repr=False)
    """What decides at a later call, where nothing is decided yet."""


@dataclass(frozen=True)
class CensusRow:
    """A row as `census()` gives it."""

    line: str
    """As `convir-bench` reads it; empty where no MIOpenDriver line says it."""
    direction: str
    """`forward`, `backward data` or `backward weight`, as PyTorch sees the convolution."""
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    """Of both operands and the result, as PyTorch writes them."""
    strides: tuple[tuple[int, ...], ...]
    options: dict[str, Any]
    """Those of `aten::convolution`."""
    device: str
    bias: bool
    runs: str
    """`convir` or `pytorch`: who runs the next call."""
    convir_calls: int
    pytorch_calls: int
    convir_us: float | None
    """The time of a call, where it was measured; of PyTorch's likewise."""
    pytorch_us: float | None
    kernel: str
    reason: str


_lock = threading.Lock()
_rows: dict[Signature, Row] = {}
_bypasses: dict[tuple[str, Signature], Row] = {}
"""By operator what never called `aten::convolution`."""


def row_of(signature: Signature) -> tuple[Row, bool]:
    """The row of a signature, and whether it is new."""
    with _lock:
        found = _rows.get(signature)
        if found is not None:
            return found, False
        row = _rows[signature] = Row(signature)
        return row, True


def bypass_of(operator: str, signature: Signature) -> Row:
    """The row of a convolution that another operator computes, which PyTorch runs."""
    with _lock:
        reason = f"PyTorch was asked for {operator}, which is not overridden"
        return _bypasses.setdefault((operator, signature), Row(signature, reason=reason))


def count_rows() -> int:
    """How many rows there are."""
    return len(_rows)


def known_rows() -> list[Row]:
    """All rows, in the order of their first calls."""
    with _lock:
        return list(_rows.values())


def forget_rows() -> None:
    """Drop all rows: what was decided for a signature is asked again."""
    with _lock:
        _rows.clear()
        for row in _bypasses.values():
            row.pytorch_calls = 0


def census() -> list[CensusRow]:
    """A row for each shape and direction that PyTorch was asked for while convir was enabled.

    Calls of a backward pass count for each gradient that was asked for. Fused convolutions that
    bypass `aten::convolution` have rows too, without strides; `docs/pytorch.md` lists what is not
    seen.
    """
    with _lock:
        bypasses = [row for row in _bypasses.values() if row.pytorch_calls]
    return [_shown(row) for row in (*known_rows(), *bypasses)]


def census_json() -> str:
    """The census as JSON: a list of objects with the fields of `CensusRow`."""
    return json.dumps([asdict(row) for row in census()], indent=1)


def census_text() -> str:
    """The census as a table: calls by each, times in µs, kernel or reason, and the line."""
    lines = [f"{'calls of convir':>15} {'of pytorch':>10} {'µs':>8} {'µs':>8}  convolution"]
    for row in sorted(census(), key=lambda row: -(row.convir_calls + row.pytorch_calls)):
        times = [f"{us:8.1f}" if us is not None else f"{'':8}" for us in _times(row)]
        what = row.line or f"{row.direction} {row.dtype} {row.shapes} {row.options}"
        why = row.kernel if row.runs == "convir" else row.reason
        count = f"{row.convir_calls:15} {row.pytorch_calls:10}"
        lines.append(f"{count} {' '.join(times)}  {what}\n{'':46}{row.runs}: {why}")
    return "\n".join(lines)


def _times(row: CensusRow) -> tuple[float | None, float | None]:
    return row.convir_us, row.pytorch_us


def _native(row: Row, *, convir: bool) -> int:
    return sum(counter.contents.value for ours, counter in row.native_calls if ours == convir)


def _shown(row: Row) -> CensusRow:
    signature = row.signature
    tensors = (*signature.operands, signature.result)
    return CensusRow(
        row.line,
        signature.direction,
        signature.dtype,
        tuple(tensor.shape for tensor in tensors),
        tuple(tensor.strides for tensor in tensors),
        asdict(signature.options),
        signature.device,
        signature.bias,
        "pytorch" if row.run is None else "convir",
        row.convir_calls + _native(row, convir=True),
        row.pytorch_calls + _native(row, convir=False),
        row.convir_us,
        row.pytorch_us,
        row.kernel,
        row.reason,
    )
