"""What a source is: a module, text, a line, a file, or a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_cases import model_of, node
from xdsl.dialects.builtin import ModuleOp

from convir.frontends.sources import SourceKind, is_line, kind_of

pytestmark = pytest.mark.fast

TEXT = "func.func @f() { return }"


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (TEXT, SourceKind.TEXT),
        ("", SourceKind.TEXT),
        ("x" * 5000, SourceKind.TEXT),
        ("conv -n 1 -c 2", SourceKind.LINE),
        ("convfp16 -n 1", SourceKind.LINE),
        ("./bin/MIOpenDriver conv -n 1", SourceKind.LINE),
        ("conv -n 1\n", SourceKind.LINE),
        ("conv -n 1\nconv -n 2", SourceKind.TEXT),
        (Path("conv -n 1"), SourceKind.FILE),
        ("a.mlir", SourceKind.FILE),
        (Path("a.mlir"), SourceKind.FILE),
        (Path("a.txt"), SourceKind.FILE),
        ("a.txt", SourceKind.TEXT),
        (__file__, SourceKind.FILE),
        ("a.onnx", SourceKind.ONNX_FILE),
        (Path("a.onnx"), SourceKind.ONNX_FILE),
        ("// a\n// b.onnx", SourceKind.TEXT),
        ("a.nam", SourceKind.NAM_FILE),
        ("// a\n// b.nam", SourceKind.TEXT),
        ("// a\n// b.mlir", SourceKind.TEXT),
        (ModuleOp([]), SourceKind.MODULE),
        (model_of([node("Relu", ["x"], ["y"])], {"x": (1,)}, ["y"]), SourceKind.ONNX_MODEL),
    ],
    ids=lambda value: str(value)[:20].replace("\n", " "),
)
def test_kinds_of_sources(given: object, kind: SourceKind) -> None:
    assert kind_of(given) is kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv", True),
        ("MIOpenDriver", True),
        ("a/MIOpenDriver conv\n", True),
        ("a/MIOpenDriver conv\nconv", True),
        ("  conv -n 1", True),
        ("convolution", False),
        ("", False),
        (" ", False),
    ],
)
def test_what_is_a_line(text: str, expected: bool) -> None:
    assert is_line(text) == expected


def test_what_is_no_source() -> None:
    with pytest.raises(TypeError):
        kind_of(3)
