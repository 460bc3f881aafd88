"""Verifiers and parsers of every dialect: each op that is wrong is one error, with its reason.

What MLIR accepts and rejects is compared op by op in compat/test_verifiers.py; here are the ops
that only the generic form can write, and what their errors say.
"""

from __future__ import annotations

import pytest

from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError

pytestmark = pytest.mark.fast

ARGUMENTS = ", ".join(
    (
        *("%x: f32", "%h: f16", "%j: i32", "%n: index", "%b: i1", "%t: tensor<4xf32>"),
        *("%u: tensor<4x6xf32>", "%i: tensor<4xi32>", "%z: tensor<4xcomplex<f32>>"),
        *("%d: tensor<?xf32>", "%th: tensor<4xf16>", "%v: tensor<6x4xf32>", "%uu: tensor<4x4xf32>"),
        *(
            "%p: vector<4xf32>",
            "%e: tensor<4xindex>",
            "%m: memref<4xf32>",
            "%ui: tensor<4xui32>",
            "%k: i64",
        ),
    )
)

IDENTITY = "affine_map<(d0) -> (d0)>"
GENERIC = (
    f"indexing_maps = [{IDENTITY}, {IDENTITY}], iterator_types = [#linalg.iterator_type<parallel>]"
)
ONE_EACH = "operandSegmentSizes = array<i32: 1, 1>"
TWO_AND_ONE = "operandSegmentSizes = array<i32: 2, 1>"
BODY = "({ ^bb0(%p0: f32, %q0: f32): linalg.yield %p0 : f32 })"
PAIR = "({ ^bb0(%p0: f32, %q0: f32, %r0: f32): linalg.yield %r0 : f32 })"

CASES: dict[str, tuple[str, str]] = {
    # arith
    "extf of integers": ("arith.extf %j : i32 to f64", "operand 'input' at position 0"),
    "truncf of another shape": (
        '"arith.truncf"(%t) : (tensor<4xf32>) -> f16',
        "differ in shape",
    ),
    "extf of two kinds of shapes": (
        '"arith.extf"(%p) : (vector<4xf32>) -> tensor<4xf64>',
        "differ in shape",
    ),
    "sitofp of floats": ('"arith.sitofp"(%j) : (i32) -> i64', "result 'result' at position 0"),
    "fptosi to floats": ('"arith.fptosi"(%x) : (f32) -> f16', "result 'result' at position 0"),
    "index_cast of signed integers": (
        '"arith.index_cast"(%e) : (tensor<4xindex>) -> tensor<4xui32>',
        "are cast incompatible",
    ),
    "condition of another kind": (
        (
            '"arith.select"(%c, %t, %t) : (vector<4xi1>, tensor<4xf32>, tensor<4xf32>)'
            " -> tensor<4xf32>"
        ),
        "expected the condition to be an i1 or to have",
    ),
    "condition of integers": (
        (
            '"arith.select"(%i, %t, %t) : (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>)'
            " -> tensor<4xf32>"
        ),
        "Expected attribute i1 but got i32",
    ),
    "a predicate of another type": (
        '"arith.cmpi"(%j, %j) <{predicate = 2 : i32}> : (i32, i32) -> i1',
        "expected an i64 from 0 to 9 as predicate",
    ),
    "the first predicate that there is not": (
        '"arith.cmpf"(%x, %x) <{predicate = 16 : i64}> : (f32, f32) -> i1',
        "expected an i64 from 0 to 15 as predicate",
    ),
    "a predicate below 0": (
        '"arith.cmpf"(%x, %x) <{predicate = -1 : i64}> : (f32, f32) -> i1',
        "expected an i64 from 0 to 15 as predicate",
    ),
    # tensor
    "shapes of unlike elements": (
        "tensor.reshape %t(%i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<1x1x1x4xf16>",
        "element types of source and result should be the same",
    ),
    "a shape of another length": (
        "tensor.reshape %t(%i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<1x1x4xf32>",
        "length of shape operand differs from the result's tensor rank",
    ),
    "another number of elements": (
        "tensor.reshape %t(%i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<1x1x5x1xf32>",
        "source and result should have the same number of elements",
    ),
    "a pad of another element type": (
        (
            '"tensor.pad"(%t) <{static_low = array<i64: 1>, static_high = array<i64: 1>, '
            "operandSegmentSizes = array<i32: 1, 0, 0>}> ({ ^bb0(%at: index): "
            "tensor.yield %h : f16 })"
            " : (tensor<4xf32>) -> tensor<6xf16>"
        ),
        "source and result differ in element type",
    ),
    "a pad of a missing value": (
        (
            '"tensor.pad"(%t) <{static_low = array<i64: -9223372036854775808>, '
            "static_high = array<i64: 1>, operandSegmentSizes = array<i32: 1, 0, 0>}> "
            "({ ^bb0(%at: index): tensor.yield %x : f32 }) : (tensor<4xf32>) -> tensor<?xf32>"
        ),
        "number of dynamic low paddings does not match their values",
    ),
    "a pad of two high values": (
        (
            '"tensor.pad"(%t, %n) <{static_low = array<i64: 1>, '
            "static_high = array<i64: 1>, operandSegmentSizes = array<i32: 1, 0, 1>}> "
            "({ ^bb0(%at: index): tensor.yield %x : f32 }) : (tensor<4xf32>, "
            "index) -> tensor<6xf32>"
        ),
        "number of dynamic high paddings does not match their values",
    ),
    "a pad that ends with another op": (
        (
            '"tensor.pad"(%t) <{static_low = array<i64: 1>, static_high = array<i64: 1>, '
            "operandSegmentSizes = array<i32: 1, 0, 0>}> ({ ^bb0(%at: index): func.return })"
            " : (tensor<4xf32>) -> tensor<6xf32>"
        ),
        "tensor.yield",
    ),
    # linalg: structured ops
    "outputs that are vectors": (
        (
            f'"linalg.generic"(%t, %p) <{{{GENERIC}, {ONE_EACH}}}> {BODY} '
            ": (tensor<4xf32>, vector<4xf32>) -> ()"
        ),
        "expected outputs to be tensors or memrefs, got vector<4xf32>",
    ),
    "a result of a memref": (
        (
            f'"linalg.generic"(%t, %m) <{{{GENERIC}, {ONE_EACH}}}> {BODY} '
            ": (tensor<4xf32>, memref<4xf32>) -> tensor<4xf32>"
        ),
        "expected the results to have the types of the output tensors",
    ),
    "a fill of two": (
        (
            f'"linalg.fill"(%x, %x, %t) <{{{TWO_AND_ONE}}}> {PAIR} '
            ": (f32, f32, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected 1 input and 1 output",
    ),
    "scalars added": (
        (
            f'"linalg.add"(%x, %x, %t) <{{{TWO_AND_ONE}}}> {PAIR} '
            ": (f32, f32, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected inputs to be tensors or memrefs, got f32",
    ),
    "an index in no loop": ("linalg.index 0 : index", "'linalg.index' op"),
    "a constant index below 0": (
        (
            "linalg.generic {indexing_maps = [affine_map<(d0) -> (-1)>, "
            f'{IDENTITY}], iterator_types = ["parallel"]}} ins(%t : tensor<4xf32>) '
            "outs(%t : tensor<4xf32>) { ^bb0(%p0: f32, %q0: f32): linalg.yield %p0 : f32 } "
            "-> tensor<4xf32>"
        ),
        "indexing_map #0 reads index -1 of 4 elements",
    ),
    "a constant index behind the end": (
        (
            "linalg.generic {indexing_maps = [affine_map<(d0) -> (4)>, "
            f'{IDENTITY}], iterator_types = ["parallel"]}} ins(%t : tensor<4xf32>) '
            "outs(%t : tensor<4xf32>) { ^bb0(%p0: f32, %q0: f32): linalg.yield %p0 : f32 } "
            "-> tensor<4xf32>"
        ),
        "indexing_map #0 reads index 4 of 4 elements",
    ),
    "signed integers to floats": (
        '"arith.sitofp"(%ui) : (tensor<4xui32>) -> tensor<4xf32>',
        "are cast incompatible",
    ),
    "signed integers extended": (
        '"arith.extsi"(%ui) : (tensor<4xui32>) -> tensor<4xi64>',
        "are cast incompatible",
    ),
    "floats to signed integers": (
        '"arith.fptosi"(%t) : (tensor<4xf32>) -> tensor<4xui32>',
        "are cast incompatible",
    ),
    "patterns of indices": ('"arith.bitcast"(%n) : (index) -> i64', "are cast incompatible"),
    "patterns as indices": ('"arith.bitcast"(%k) : (i64) -> index', "are cast incompatible"),
    "floats to a longer tensor": (
        '"arith.extf"(%t) : (tensor<4xf32>) -> tensor<5xf64>',
        "differ in shape",
    ),
    "operands of two types": (
        '"arith.cmpi"(%j, %n) <{predicate = 2 : i64}> : (i32, index) -> i1',
        "expected operands of one type, got i32 and index",
    ),
    "nothing added": (
        (
            '"linalg.add"(%t) <{operandSegmentSizes = array<i32: 0, 1>}> '
            "({ ^bb0(%p0: f32): linalg.yield %p0 : f32 }) : (tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected inputs and 1 output",
    ),
    "two sums": (
        (
            '"linalg.add"(%t, %t, %t) <{operandSegmentSizes = array<i32: 1, 2>}> '
            "({ ^bb0(%p0: f32, %q0: f32, %r0: f32): linalg.yield %p0, %p0 : f32, f32 }) : "
            "(tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)"
        ),
        "expected inputs and 1 output",
    ),
    "a choice by numbers": (
        (
            '"linalg.select"(%i, %t, %t, %t) <{operandSegmentSizes = array<i32: 3, 1>}> '
            "({ ^bb0(%p0: i32, %q0: f32, %r0: f32, %s0: f32): linalg.yield %q0 : f32 }) : "
            "(tensor<4xi32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected a condition of i1",
    ),
    "a choice by nothing": (
        (
            '"linalg.select"(%t) <{operandSegmentSizes = array<i32: 0, 1>}> '
            "({ ^bb0(%s0: f32): linalg.yield %s0 : f32 }) : (tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected a condition of i1",
    ),
    "one value of two outputs": (
        (
            f'"linalg.generic"(%t, %t) <{{{GENERIC}, operandSegmentSizes = array<i32: 0, 2>}}> '
            "({ ^bb0(%p0: f32, %q0: f32): linalg.yield %p0 : f32 }) "
            ": (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)"
        ),
        "expected 2 yielded values, one for each output, got 1",
    ),
    # linalg: named ops
    "a product of three": (
        (
            '"linalg.matmul"(%u, %u, %v, %uu) <{operandSegmentSizes = array<i32: 3, 1>}> '
            "({ ^bb0(%p0: f32, %q0: f32, %r0: f32, %s0: f32): linalg.yield %s0 : f32 }) : "
            "(tensor<4x6xf32>, tensor<4x6xf32>, tensor<6x4xf32>, tensor<4x4xf32>) "
            "-> tensor<4x4xf32>"
        ),
        "expected 2 inputs and 1 output",
    ),
    "a product of two results": (
        (
            '"linalg.matmul"(%u, %v, %uu, %uu) <{operandSegmentSizes = array<i32: 2, 2>}> '
            "({ ^bb0(%p0: f32, %q0: f32, %r0: f32, %s0: f32): linalg.yield %s0, "
            "%s0 : f32, f32 }) : "
            "(tensor<4x6xf32>, tensor<6x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>)"
            " -> (tensor<4x4xf32>, tensor<4x4xf32>)"
        ),
        "expected 2 inputs and 1 output",
    ),
    "a product with another body": (
        (
            f'"linalg.matmul"(%u, %v, %uu) <{{{TWO_AND_ONE}}}> {PAIR} : '
            "(tensor<4x6xf32>, tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"
        ),
        "body is not the one that the op's name stands for",
    ),
    "a product of complex numbers": (
        (
            "linalg.dot ins(%z, %z : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) "
            "outs(%z : tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>"
        ),
        "complex elements are not supported",
    ),
    "a product of indices": (
        (
            "linalg.dot ins(%e, %e : tensor<4xindex>, tensor<4xindex>) "
            "outs(%x0 : tensor<f32>) -> tensor<f32>"
        ),
        "no conversion of elements from index to f32",
    ),
    "a function of other elements": (
        (
            "linalg.elementwise <exp> ins(%i : tensor<4xi32>) "
            "outs(%i : tensor<4xi32>) -> tensor<4xi32>"
        ),
        "no scalar operation 'exp' on elements of type i32",
    ),
    "a function with another body": (
        (
            f'"linalg.elementwise"(%t, %t) <{{kind = #linalg.elementwise_kind<exp>, {ONE_EACH}}}> '
            f"{BODY} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "body is not the one that the op's properties stand for",
    ),
    "a function that is a number": (
        (
            f'"linalg.elementwise"(%t, %t) <{{kind = 3 : i32, {ONE_EACH}}}> '
            f"{BODY} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "should be of base attribute linalg.elementwise_kind",
    ),
    "a function of too few": (
        (
            "linalg.elementwise <add> ins(%t : tensor<4xf32>) "
            "outs(%t : tensor<4xf32>) -> tensor<4xf32>"
        ),
        "add takes 2 inputs and 1 output",
    ),
    "a named function of too few": (
        "linalg.div ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>) -> tensor<4xf32>",
        "expected 2 inputs and 1 output",
    ),
    "a named function of too many": (
        (
            "linalg.abs ins(%t, %t : tensor<4xf32>, tensor<4xf32>) outs(%t : tensor<4xf32>)"
            " -> tensor<4xf32>"
        ),
        "expected 1 inputs and 1 output",
    ),
    # linalg: ops over dimensions
    "a map onto a scalar": (
        f'"linalg.map"(%t, %x) <{{{ONE_EACH}}}> {BODY} : (tensor<4xf32>, f32) -> ()',
        "f32 should be of attribute subclassing `ShapedType`",
    ),
    "a sum of a scalar": (
        (
            f'"linalg.reduce"(%x, %t) <{{dimensions = array<i64: 1>}}> {BODY} '
            ": (f32, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected tensor or memref operands",
    ),
    "a sum of nothing": (
        '"linalg.reduce"() <{dimensions = array<i64: 0>}> ({ ^bb0: linalg.yield }) : () -> ()',
        "expected at least one input",
    ),
    "a sum of unlike shapes": (
        (
            '"linalg.reduce"(%u, %v, %t, %t) <{dimensions = array<i64: 1>}> '
            "({ ^bb0(%p0: f32, %q0: f32, %r0: f32, %s0: f32): linalg.yield %p0, "
            "%q0 : f32, f32 }) : "
            "(tensor<4x6xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<4xf32>)"
            " -> (tensor<4xf32>, tensor<4xf32>)"
        ),
        "inputs differ in shape",
    ),
    "a sum over a dimension twice": (
        (
            '"linalg.reduce"(%u, %t) <{dimensions = array<i64: 1, 1>}> '
            f"{BODY} : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "dimensions are not distinct",
    ),
    "a sum over no dimension": (
        (
            '"linalg.reduce"(%u, %t) <{dimensions = array<i64: 2>}> '
            f"{BODY} : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "dimension 2 in dimensions is not in [0, 2)",
    ),
    "an order of two": (
        (
            '"linalg.transpose"(%u, %u, %v, %v) <{permutation = array<i64: 1, 0>}> '
            "({ ^bb0(%p0: f32, %q0: f32, %r0: f32, %s0: f32): linalg.yield %p0, "
            "%q0 : f32, f32 }) : "
            "(tensor<4x6xf32>, tensor<4x6xf32>, tensor<6x4xf32>, tensor<6x4xf32>)"
            " -> (tensor<6x4xf32>, tensor<6x4xf32>)"
        ),
        "expected 1 input and 1 output",
    ),
    "an order of too few": (
        (
            '"linalg.transpose"(%t, %u) <{permutation = array<i64: 0>}> '
            f"{BODY} : (tensor<4xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"
        ),
        "expected a permutation of 2 dimensions",
    ),
    "a contraction of two maps": (
        (
            f'"linalg.contract"(%t, %t) <{{indexing_maps = [{IDENTITY}, {IDENTITY}], {ONE_EACH}}}> '
            f"{BODY} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected 3 indexing maps",
    ),
    "a contraction of one": (
        (
            f'"linalg.contract"(%t, %t) <{{indexing_maps = [{IDENTITY}, {IDENTITY}, '
            f"{IDENTITY}], {ONE_EACH}}}> {BODY} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
        ),
        "expected 2 inputs and 1 output",
    ),
    "an order with another body": (
        (
            '"linalg.transpose"(%u, %v) <{permutation = array<i64: 1, 0>}> '
            "({ ^bb0(%p0: f32, %q0: f32): linalg.yield %q0 : f32 }) : "
            "(tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>"
        ),
        "body is not the one that the op's name stands for",
    ),
    "an unknown function of elements": (
        "linalg.map { arith.no_such } ins(%t : tensor<4xf32>) outs(%t : tensor<4xf32>)",
        "unknown operation 'arith.no_such'",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ops_are_refused(case: tuple[str, str]) -> None:
    op, reason = case
    arguments = f"{ARGUMENTS}, %x0: tensor<f32>, %c: vector<4xi1>"
    with pytest.raises(DiagnosticError) as caught:
        read_module(f"func.func @f({arguments}) {{\n  {op}\n  func.return\n}}", "in.mlir")
    assert str(caught.value).startswith(("in.mlir:2:", "in.mlir:3:3:"))
    assert reason in str(caught.value)


MODULES: dict[str, tuple[str, str]] = {
    "a block without an end": (
        (
            '"test.op"() ({ ^bb0: %0 = arith.constant 1 : i32 "cf.br"()[^bb1] : () -> () ^bb1: }) '
            ": () -> ()"
        ),
        "expects a terminator at the end of each block",
    ),
    "a function without an end": (
        "func.func @f() { %0 = arith.constant 1 : i32 }",
        "stands at the end of a block but is not a terminator",
    ),
    "an empty function": (
        '"func.func"() <{sym_name = "f", function_type = () -> ()}> ({ ^bb0: }) : () -> ()',
        "expects a terminator at the end of each block",
    ),
    "ops behind a branch": (
        "func.func @f() { cf.br ^bb1 %0 = arith.constant 1 : i32 func.return ^bb1: func.return }",
        "has successors but is not the last op of its block",
    ),
    "a place that is not defined": (
        '"test.op"() : () -> () loc(#nowhere)',
        "undefined symbol alias '#nowhere'",
    ),
    "two functions of a name": (
        "func.func private @f()\nfunc.func private @f()",
        "redefinition of symbol named 'f'",
    ),
    "a value of another function": (
        (
            'func.func @f(%x: f32) { "builtin.module"() ({ "test.op"(%x) : (f32) -> () }) '
            ": () -> () func.return }"
        ),
        "is defined outside of the isolated 'builtin.module' around this use",
    ),
}


@pytest.mark.parametrize("case", MODULES.values(), ids=MODULES)
def test_modules_are_refused(case: tuple[str, str]) -> None:
    text, reason = case
    with pytest.raises(DiagnosticError) as caught:
        read_module(text, "in.mlir")
    assert reason in str(caught.value)
