"""Every named op of the table: syntax, loops, maps and body are those of MLIR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.dialects.linalg.named import NAMED_OPS, steps_attr
from convir.dialects.linalg.table import CORRELATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.dialects.builtin import ModuleOp

    from convir.dialects.linalg.table import NamedSpec

STRIDE, DILATION = 2, 3
UNSIGNED = "unsigned"


def has_steps(spec: NamedSpec) -> bool:
    return spec.windows > 0 and spec.name not in CORRELATIONS


def size_of(spec: NamedSpec, expression: str) -> int:
    position, _, offset = expression.partition("+")
    size = spec.loops.index(position) + 2
    if not offset:
        return size
    stride, dilation = (STRIDE, DILATION) if has_steps(spec) else (1, 1)
    return stride * (size - 1) + dilation * (spec.loops.index(offset) + 1) + 1


def function_of(spec: NamedSpec, narrow: str, wide: str) -> str:
    types = [
        "tensor<" + "".join(f"{size_of(spec, e)}x" for e in operand) + f"{element}>"
        for operand, element in zip(spec.operands, (narrow, narrow, wide), strict=True)
    ]
    attributes = ""
    if has_steps(spec):
        steps = f"tensor<{spec.windows}xi64>"
        attributes = (
            f" {{strides = dense<{STRIDE}> : {steps}, dilations = dense<{DILATION}> : {steps}}}"
        )
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in zip("abc", types, strict=True))
    return (
        f"func.func @{spec.name}({arguments}) -> {types[2]} {{\n"
        f"  %r = linalg.{spec.name}{attributes} ins(%a, %b : {types[0]}, {types[1]})"
        f" outs(%c : {types[2]}) -> {types[2]}\n"
        f"  func.return %r : {types[2]}\n}}\n"
    )


def module_text(narrow: str, wide: str) -> str:
    specs = [op.SPEC for op in NAMED_OPS.values()]
    if not wide.startswith("i"):
        specs = [spec for spec in specs if UNSIGNED not in spec.name]
    return "".join(function_of(spec, narrow, wide) for spec in specs)


def structure_of(module: ModuleOp) -> list[tuple[object, ...]]:
    return [
        (
            op.get_indexing_maps(),
            op.get_iterator_types(),
            [(nested.name, nested.result_types) for nested in op.body.block.ops],
        )
        for op in module.walk()
        if isinstance(op, LinalgStructuredOperation)
    ]


ELEMENT_TYPES = [("f32", "f32"), ("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("f32", "f16")]


@pytest.mark.parametrize(("narrow", "wide"), ELEMENT_TYPES)
def test_printing_and_reading_gives_the_same_module(narrow: str, wide: str):
    module = read_module(module_text(narrow, wide))
    assert str(read_module(str(module))) == str(module)
    assert read_module(str(module)).is_structurally_equivalent(module)


@pytest.mark.parametrize(("narrow", "wide"), ELEMENT_TYPES)
def test_loops_maps_and_bodies_are_those_of_mlir(
    narrow: str, wide: str, iree_opt: Callable[..., str]
):
    module = read_module(module_text(narrow, wide))
    pipeline = "--pass-pipeline=builtin.module(func.func(linalg-generalize-named-ops))"
    generalized = read_module(iree_opt(str(module), pipeline))
    assert structure_of(generalized) == structure_of(module)


OPERANDS = "ins(%a, %b : tensor<4x5xf32>, tensor<5x6xf32>) outs(%c : tensor<4x6xf32>)"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("matmul ins(%a : tensor<4x5xf32>) outs(%c : tensor<4x6xf32>)", "takes 2 inputs"),
        (
            "matmul ins(%a, %a : tensor<4x5xf32>, tensor<4x5xf32>) outs(%c : tensor<4x6xf32>)",
            "#1 has shape's dimension #0 to be 5, but found 4",
        ),
        (
            f"matmul indexing_maps = [affine_map<(d0) -> (d0)>] {OPERANDS}",
            "expected 3 indexing maps",
        ),
        (
            "pooling_nchw_sum {strides = dense<1> : tensor<3xi64>} " + OPERANDS,
            "'strides' must be of type tensor<2xi64>",
        ),
        (
            "pooling_nchw_sum {dilations = dense<0> : tensor<2xi64>} " + OPERANDS,
            "'dilations' must be positive",
        ),
        (
            "matmul ins(%s, %b : f32, tensor<5x6xf32>) outs(%c : tensor<4x6xf32>)",
            "expected tensor or memref inputs",
        ),
    ],
)
def test_a_wrong_named_op_is_one_error_at_the_op(op: str, message: str):
    text = (
        "func.func @f(%a: tensor<4x5xf32>, %b: tensor<5x6xf32>, %c: tensor<4x6xf32>, %s: f32) {\n"
        f"  %r = linalg.{op} -> tensor<4x6xf32>\n  func.return\n}}"
    )
    with pytest.raises(DiagnosticError) as caught:
        read_module(text, "in.mlir")
    assert str(caught.value).startswith("in.mlir:2:")
    assert message in str(caught.value)


def test_a_tensor_output_needs_a_result():
    text = (
        "func.func @f(%a: tensor<4x5xf32>, %b: tensor<5x6xf32>, %c: tensor<4x6xf32>) {\n"
        f"  linalg.matmul {OPERANDS}\n  func.return\n}}"
    )
    with pytest.raises(DiagnosticError, match="expected the results to have the types of"):
        read_module(text)


@pytest.mark.parametrize(
    ("steps", "text"), [((2, 2), "dense<2>"), ((1, 2), "dense<[1, 2]>"), ((3,), "dense<3>")]
)
def test_steps_that_are_all_alike_are_a_splat(steps: tuple[int, ...], text: str):
    attribute = steps_attr(steps)
    assert str(attribute) == f"{text} : tensor<{len(steps)}xi64>"
    assert len(attribute.data.data) == 8 * len(set(steps))
