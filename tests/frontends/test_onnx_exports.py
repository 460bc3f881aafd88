"""Networks as PyTorch exports them, with open sizes: called by name, with whatever sizes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api.compile import compile as convir_compile

if TYPE_CHECKING:
    from pathlib import Path

    from convir.runtime.executable import Executable

torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

SHAPES: dict[str, list[list[tuple[int, ...]]]] = {
    "vision transformer": [[(1, 3, 32, 32)], [(3, 3, 32, 32)]],
    "masked attention": [[(2, 5, 32), (1, 1, 5, 5)], [(1, 8, 32), (1, 1, 8, 8)]],
    "detector": [[(1, 3, 32, 64)], [(2, 3, 64, 32)]],
    "LSTM": [[(2, 1, 16, 12)], [(1, 1, 16, 8)]],
    "GRU": [[(2, 1, 16, 12)]],
    "indexing": [[(4, 6)]],
}


@pytest.mark.parametrize("name", SHAPES)
def test_exported_networks(name: str, tmp_path: Path) -> None:
    from exported_networks import export  # noqa: PLC0415  (brings PyTorch along)

    network = export(name, tmp_path / "net.onnx")
    executable = convir_compile(tmp_path / "net.onnx", device="host")
    for number, shapes in enumerate(SHAPES[name]):
        check(executable, network, shapes, number)


def check(executable: Executable, network: Any, shapes: list[tuple[int, ...]], seed: int) -> None:
    """Results are PyTorch's; the second argument is a mask."""
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    arrays[1:] = [np.tril(np.ones_like(array)) for array in arrays[1:]]
    with torch.no_grad():
        wanted: Any = network(*map(torch.from_numpy, arrays))
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    named = {spec.name: array for spec, array in zip(executable.inputs, arrays, strict=True)}
    assert list(named) == ["in0", "in1"][: len(arrays)]
    given: Any = executable(**named)
    for result, one in zip(given if isinstance(given, tuple) else (given,), wanted, strict=True):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        expected = one.numpy()
        largest = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(result, expected, rtol=0, atol=2e-6 * largest)
