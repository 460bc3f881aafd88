"""What canonicalization must leave as it is, one op or pair of ops at a boundary of a pattern."""

from __future__ import annotations

import pytest

from convir.dialects.compat.equivalence import is_equivalent
from convir.dialects.context import read_module
from convir.passes import run

pytestmark = pytest.mark.fast

ARGUMENTS = ", ".join(
    (
        *("%x: f32", "%y: f32", "%n: index", "%m: index", "%k: i32", "%t: tensor<4xf32>"),
        *("%u: tensor<4x6xf32>", "%d: tensor<?xf32>", "%dd: tensor<?x?xf32>", "%a: tensor<*xf32>"),
        *("%z: tensor<0x4xf32>", "%o: tensor<8xf32>", "%mm: memref<4xf32>", "%mo: memref<4xf32>"),
        "%c: complex<f32>",
    )
)
IDENTITIES = (
    "indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], "
    'iterator_types = ["parallel"]'
)

CASES: dict[str, tuple[str, str]] = {
    # Each: the ops, and the values that are returned, with their types.
    "a sum of no constants": (
        (
            "%0 = arith.addf %x, %y fastmath<reassoc> : f32\n"
            "%h = arith.constant 5.0e-01 : f32\n"
            "%1 = arith.addf %0, %h fastmath<reassoc> : f32"
        ),
        "%1 : f32",
    ),
    "a sum whose first part may not move": (
        (
            "%h = arith.constant 5.0e-01 : f32\n"
            "%0 = arith.addf %x, %h : f32\n"
            "%1 = arith.addf %0, %h fastmath<reassoc> : f32"
        ),
        "%1 : f32",
    ),
    "a sum that may not move": (
        (
            "%h = arith.constant 5.0e-01 : f32\n"
            "%0 = arith.addf %x, %h fastmath<reassoc> : f32\n"
            "%1 = arith.addf %0, %h : f32"
        ),
        "%1 : f32",
    ),
    "a product of a sum": (
        (
            "%h = arith.constant 5.0e-01 : f32\n"
            "%0 = arith.addf %x, %h fastmath<reassoc> : f32\n"
            "%1 = arith.mulf %0, %h fastmath<reassoc> : f32"
        ),
        "%1 : f32",
    ),
    "a comparison of two": ("%0 = arith.cmpi sle, %n, %m : index", "%0 : i1"),
    "a comparison of a float with itself": ("%0 = arith.cmpf oeq, %x, %x : f32", "%0 : i1"),
    "a cast of what has no rank": (
        (
            "%0 = tensor.cast %a : tensor<*xf32> to tensor<4xf32>\n"
            "%1 = tensor.extract_slice %0[0] [2] [1] : tensor<4xf32> to tensor<2xf32>"
        ),
        "%1 : tensor<2xf32>",
    ),
    "a cast that promises a size": (
        (
            "%0 = tensor.cast %d : tensor<?xf32> to tensor<4xf32>\n"
            "%1 = tensor.extract_slice %0[0] [2] [1] : tensor<4xf32> to tensor<2xf32>"
        ),
        "%1 : tensor<2xf32>",
    ),
    "casts to another rank": (
        (
            "%0 = tensor.cast %t : tensor<4xf32> to tensor<*xf32>\n"
            "%1 = tensor.cast %0 : tensor<*xf32> to tensor<2x2xf32>"
        ),
        "%1 : tensor<2x2xf32>",
    ),
    "casts to another size": (
        (
            "%0 = tensor.cast %t : tensor<4xf32> to tensor<?xf32>\n"
            "%1 = tensor.cast %0 : tensor<?xf32> to tensor<5xf32>"
        ),
        "%1 : tensor<5xf32>",
    ),
    "casts from what has no rank": (
        (
            "%0 = tensor.cast %a : tensor<*xf32> to tensor<?xf32>\n"
            "%1 = tensor.cast %0 : tensor<?xf32> to tensor<5xf32>"
        ),
        "%1 : tensor<5xf32>",
    ),
    "an element of a tensor": ("%0 = tensor.extract %t[%n] : tensor<4xf32>", "%0 : f32"),
    "an element of another place": (
        (
            "%0 = tensor.insert %x into %t[%n] : tensor<4xf32>\n"
            "%1 = tensor.extract %0[%m] : tensor<4xf32>"
        ),
        "%1 : f32",
    ),
    "elements that are not all constant": (
        "%h = arith.constant 5.0e-01 : f32\n%0 = tensor.from_elements %h, %x : tensor<2xf32>",
        "%0 : tensor<2xf32>",
    ),
    "an element of complex numbers": (
        (
            "%0 = tensor.from_elements %c, %c : tensor<2xcomplex<f32>>\n"
            "%1 = tensor.extract %0[%n] : tensor<2xcomplex<f32>>"
        ),
        "%1 : complex<f32>",
    ),
    "a splat of an argument": ("%0 = tensor.splat %x : tensor<4xf32>", "%0 : tensor<4xf32>"),
    "a splat of an unknown size": (
        "%h = arith.constant 5.0e-01 : f32\n%0 = tensor.splat %h[%n] : tensor<?xf32>",
        "%0 : tensor<?xf32>",
    ),
    "a size that is unknown": (
        "%0 = arith.constant 0 : index\n%1 = tensor.dim %d, %0 : tensor<?xf32>",
        "%1 : index",
    ),
    "a dimension that is unknown": ("%0 = tensor.dim %u, %n : tensor<4x6xf32>", "%0 : index"),
    "a dimension that there is not": (
        "%0 = arith.constant 2 : index\n%1 = tensor.dim %u, %0 : tensor<4x6xf32>",
        "%1 : index",
    ),
    "a slice in the middle": (
        "%0 = tensor.extract_slice %o[1] [4] [1] : tensor<8xf32> to tensor<4xf32>",
        "%0 : tensor<4xf32>",
    ),
    "a slice of every second element": (
        "%0 = tensor.extract_slice %o[0] [4] [2] : tensor<8xf32> to tensor<4xf32>",
        "%0 : tensor<4xf32>",
    ),
    "an insertion at one end": (
        "%0 = tensor.insert_slice %t into %o[0] [4] [1] : tensor<4xf32> into tensor<8xf32>",
        "%0 : tensor<8xf32>",
    ),
    "insertions that may overlap": (
        (
            "%0 = tensor.insert_slice %t into %o[%n] [4] [1] : tensor<4xf32> into tensor<8xf32>\n"
            "%1 = tensor.insert_slice %t into %0[%m] [4] [1] : tensor<4xf32> into tensor<8xf32>"
        ),
        "%1 : tensor<8xf32>",
    ),
    "an insertion that leaves an element": (
        (
            "%s = tensor.extract_slice %o[0] [3] [1] : tensor<8xf32> to tensor<3xf32>\n"
            "%0 = tensor.insert_slice %t into %o[0] [4] [1] : tensor<4xf32> into tensor<8xf32>\n"
            "%1 = tensor.insert_slice %s into %0[0] [3] [1] : tensor<3xf32> into tensor<8xf32>"
        ),
        "%1 : tensor<8xf32>",
    ),
    "an insertion between the elements": (
        (
            "%0 = tensor.insert_slice %t into %o[0] [4] [2] : tensor<4xf32> into tensor<8xf32>\n"
            "%1 = tensor.insert_slice %t into %0[1] [4] [2] : tensor<4xf32> into tensor<8xf32>"
        ),
        "%1 : tensor<8xf32>",
    ),
    "a slice beside an insertion that is unknown": (
        (
            "%0 = tensor.insert_slice %t into %o[%n] [4] [1] : tensor<4xf32> into tensor<8xf32>\n"
            "%1 = tensor.extract_slice %0[0] [2] [1] : tensor<8xf32> to tensor<2xf32>"
        ),
        "%1 : tensor<2xf32>",
    ),
    "a reshape of no elements": (
        "%0 = tensor.collapse_shape %z [[0, 1]] : tensor<0x4xf32> into tensor<0xf32>",
        "%0 : tensor<0xf32>",
    ),
    "reshapes of two open sizes": (
        (
            "%0 = tensor.collapse_shape %dd [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>\n"
            "%1 = tensor.expand_shape %0 [[0, 1]] output_shape [%n, %m] : tensor<?xf32> "
            "into tensor<?x?xf32>"
        ),
        "%1 : tensor<?x?xf32>",
    ),
    "reshapes that no groups relate": (
        (
            "%0 = tensor.collapse_shape %u [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>\n"
            "%1 = tensor.expand_shape %0 [[0, 1]] output_shape [3, 8] : tensor<24xf32> "
            "into tensor<3x8xf32>"
        ),
        "%1 : tensor<3x8xf32>",
    ),
    "a reshape of an argument": (
        "%0 = tensor.collapse_shape %u [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>",
        "%0 : tensor<24xf32>",
    ),
    "a reshape of a constant to an open size": (
        (
            "%h = arith.constant dense<5.0e-01> : tensor<4xf32>\n"
            "%l = tensor.from_elements %n, %m : tensor<2xindex>\n"
            "%0 = tensor.reshape %h(%l) : (tensor<4xf32>, tensor<2xindex>) -> tensor<?x?xf32>"
        ),
        "%0 : tensor<?x?xf32>",
    ),
    "a pad by an unknown amount": (
        (
            "%0 = tensor.pad %t low[%n] high[0] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<4xf32> to tensor<?xf32>\n"
            "%1 = tensor.pad %0 low[1] high[1] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<?xf32> to tensor<?xf32>"
        ),
        "%1 : tensor<?xf32>",
    ),
    "a pad that copies": (
        (
            "%0 = tensor.pad %t nofold low[0] high[0] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<4xf32> to tensor<4xf32>"
        ),
        "%0 : tensor<4xf32>",
    ),
    "a pad at one end": (
        (
            "%0 = tensor.pad %t low[0] high[1] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<4xf32> to tensor<5xf32>"
        ),
        "%0 : tensor<5xf32>",
    ),
    "pads of two scalars": (
        (
            "%0 = tensor.pad %t low[1] high[1] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<4xf32> to tensor<6xf32>\n"
            "%1 = tensor.pad %0 low[1] high[1] { ^bb0(%i: index): tensor.yield %y : f32 } "
            ": tensor<6xf32> to tensor<8xf32>"
        ),
        "%1 : tensor<8xf32>",
    ),
    "a pad of a pad that copies": (
        (
            "%0 = tensor.pad %t nofold low[1] high[1] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<4xf32> to tensor<6xf32>\n"
            "%1 = tensor.pad %0 low[1] high[1] { ^bb0(%i: index): tensor.yield %x : f32 } "
            ": tensor<6xf32> to tensor<8xf32>"
        ),
        "%1 : tensor<8xf32>",
    ),
    "two allocations": (
        (
            "%0 = memref.alloc() : memref<4xf32>\n%1 = memref.alloc() : memref<4xf32>\n"
            "memref.store %x, %0[%n] : memref<4xf32>\nmemref.store %y, %1[%n] : memref<4xf32>"
        ),
        "%0, %1 : memref<4xf32>, memref<4xf32>",
    ),
    "reads around a write": (
        (
            "%0 = memref.load %mm[%n] : memref<4xf32>\n"
            "memref.store %x, %mo[%n] : memref<4xf32>\n"
            "%1 = memref.load %mm[%n] : memref<4xf32>"
        ),
        "%0, %1 : f32, f32",
    ),
    "a copy in memory": (
        (
            f"linalg.generic {{{IDENTITIES}}} ins(%mm : memref<4xf32>) outs(%mo : "
            f"memref<4xf32>) {{\n"
            "^bb0(%p: f32, %q: f32):\n  linalg.yield %p : f32\n}"
        ),
        "",
    ),
    "what memory is written without being read": (
        (
            f"linalg.generic {{{IDENTITIES}}} ins(%mm : memref<4xf32>) outs(%mo : "
            f"memref<4xf32>) {{\n"
            "^bb0(%p: f32, %q: f32):\n  linalg.yield %x : f32\n}"
        ),
        "",
    ),
    "a value from outside of the body": (
        (
            "%e = tensor.empty() : tensor<4xf32>\n"
            f"%0 = linalg.generic {{{IDENTITIES}}} ins(%t : tensor<4xf32>) outs(%e "
            f": tensor<4xf32>) "
            "{\n^bb0(%p: f32, %q: f32):\n  %1 = arith.addf %p, %x : f32\n  "
            "linalg.yield %1 : f32\n} "
            "-> tensor<4xf32>"
        ),
        "%0 : tensor<4xf32>",
    ),
    "a copy of every second element": (
        (
            "%e = tensor.empty() : tensor<4xf32>\n"
            "%0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 * 2)>, "
            'affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%o : tensor<8xf32>) '
            "outs(%e : tensor<4xf32>) {\n^bb0(%p: f32, %q: f32):\n  linalg.yield %p : f32\n} "
            "-> tensor<4xf32>"
        ),
        "%0 : tensor<4xf32>",
    ),
    "an init that is read": (
        (
            "%h = arith.constant dense<5.0e-01> : tensor<4xf32>\n"
            f"%0 = linalg.generic {{{IDENTITIES}}} ins(%t : tensor<4xf32>) outs(%h "
            f": tensor<4xf32>) "
            "{\n^bb0(%p: f32, %q: f32):\n  %1 = arith.addf %p, %q : f32\n  "
            "linalg.yield %1 : f32\n} "
            "-> tensor<4xf32>"
        ),
        "%0 : tensor<4xf32>",
    ),
    "an init that is not all overwritten": (
        (
            "%h = arith.constant dense<5.0e-01> : tensor<8xf32>\n"
            "%0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, "
            'affine_map<(d0) -> (d0 * 2)>], iterator_types = ["parallel"]} ins(%t : tensor<4xf32>) '
            "outs(%h : tensor<8xf32>) {\n^bb0(%p: f32, %q: f32):\n"
            "  %1 = arith.negf %p : f32\n  linalg.yield %1 : f32\n} -> tensor<8xf32>"
        ),
        "%0 : tensor<8xf32>",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ops_are_kept(case: tuple[str, str]) -> None:
    ops, returned = case
    results = f" -> ({returned.partition(': ')[2]})" if returned else ""
    text = f"func.func @f({ARGUMENTS}){results} {{\n{ops}\nfunc.return {returned}\n}}"
    module = read_module(text)
    assert is_equivalent(run(module, "canonicalize").module, module)
