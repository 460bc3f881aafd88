"""Activations found in the scalar ops that spell them, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from elementary import EXACT, units_off
from xdsl.parser import Parser

import convir
from convir.dialects.context import new_context
from convir.lowering.kernels.host.vector_functions.activations import activation

SPELLED = {
    "sigmoid": """
        %n = arith.negf %x : f32
        %e = math.exp %n : f32
        %p = arith.addf %e, %one : f32
        %y = arith.divf %one, %p : f32""",
    "silu": """
        %n = arith.negf %x : f32
        %e = math.exp %n : f32
        %p = arith.addf %one, %e : f32
        %s = arith.divf %one, %p : f32
        %y = arith.mulf %s, %x : f32""",
    "gelu": """
        %c = arith.constant 1.41421354 : f32
        %d = arith.divf %x, %c : f32
        %e = math.erf %d : f32
        %p = arith.addf %e, %one : f32
        %m = arith.mulf %x, %p : f32
        %y = arith.mulf %m, %half : f32""",
    "gelu_tanh": """
        %c = arith.constant 4.471500e-02 : f32
        %r = arith.constant 0.797884583 : f32
        %q = arith.mulf %x, %x : f32
        %u = arith.mulf %q, %x : f32
        %v = arith.mulf %c, %u : f32
        %w = arith.addf %x, %v : f32
        %i = arith.mulf %w, %r : f32
        %t = math.tanh %i : f32
        %p = arith.addf %one, %t : f32
        %h = arith.mulf %half, %x : f32
        %y = arith.mulf %h, %p : f32""",
    "softplus": """
        %a = math.absf %x : f32
        %n = arith.negf %a : f32
        %e = math.exp %n : f32
        %l = math.log1p %e : f32
        %m = arith.maximumf %x, %zero : f32
        %y = arith.addf %m, %l : f32""",
}
SPELLED["mish"] = (
    SPELLED["softplus"].replace("%y", "%s")
    + """
        %t = math.tanh %s : f32
        %y = arith.mulf %x, %t : f32"""
)
"""The last op is the activation of %x."""
NONE = {
    "the gate of another number": SPELLED["silu"].replace("%s, %x", "%s, %half"),
    "a third instead of a half": SPELLED["gelu"].replace("%m, %half", "%m, %third"),
    "another root": SPELLED["gelu"].replace("1.41421354", "1.5"),
    "less one": SPELLED["sigmoid"].replace("arith.addf", "arith.subf"),
    "another cube": SPELLED["gelu_tanh"].replace("%q, %x :", "%q, %q :"),
    "of another bound": SPELLED["softplus"].replace("%x, %zero", "%x, %one"),
}


def scalars(body: str) -> str:
    """A body of %x: f32 that gives %y, with constants."""
    numbers = {"zero": "0.0", "one": "1.0", "half": "0.5", "third": "0.33"}
    constants = "".join(f"%{k} = arith.constant {v} : f32\n" for k, v in numbers.items())
    return constants + body


def of_last_op(body: str) -> object:
    """What is found of the last op of a body: the function, if it is one of %x."""
    text = f"func.func @f(%x: f32) -> f32 {{\n{scalars(body)}\nfunc.return %y : f32\n}}"
    module = Parser(new_context(), text).parse_module()
    (function,) = module.ops
    block = function.regions[0].block
    assert block.last_op is not None
    found = activation(block.last_op.operands[0].owner)  # type: ignore[arg-type]
    return found[0] if found is not None and found[1] is block.args[0] else found


@pytest.mark.fast
@pytest.mark.parametrize("name", sorted(SPELLED))
def test_found(name: str) -> None:
    assert of_last_op(SPELLED[name]) == name


@pytest.mark.fast
@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("%t = arith.truncf %y : f32 to bf16", "gelu_to_bf16"),
        ("%p2 = arith.mulf %y, %third : f32\n%t = arith.truncf %p2 : f32 to bf16", "gelu_to_bf16"),
        ("%t = arith.truncf %y : f32 to f16", "gelu"),
        ("%p2 = arith.addf %y, %third : f32\n%t = arith.truncf %p2 : f32 to bf16", "gelu"),
    ],
)
def test_of_which_a_bf16_is_kept(rest: str, name: str) -> None:
    text = f"func.func @f(%x: f32) {{\n{scalars(SPELLED['gelu'])}\n{rest}\nfunc.return\n}}"
    (function,) = Parser(new_context(), text).parse_module().ops
    found = [activation(op) for op in function.regions[0].block.ops]
    assert [each[0] for each in found if each is not None] == [name]


@pytest.mark.fast
@pytest.mark.parametrize("why", sorted(NONE))
def test_not_found(why: str) -> None:
    assert of_last_op(NONE[why]) is None


@pytest.mark.fast
def test_f64_is_left_alone() -> None:
    body = scalars(SPELLED["sigmoid"]).replace("f32", "f64")
    text = f"func.func @f(%x: f64) -> f64 {{\n{body}\nfunc.return %y : f64\n}}"
    (function,) = Parser(new_context(), text).parse_module().ops
    last = function.regions[0].block.last_op
    assert last is not None
    assert activation(last.operands[0].owner) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 15, 64, 131])
@pytest.mark.parametrize("name", sorted(SPELLED))
def test_loops(name: str, size: int) -> None:
    """Of whole tensors, also where vectors are left over."""
    kind = f"tensor<3x{size}xf32>"
    text = f"""
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%input: {kind}) -> {kind} {{
  %init = tensor.empty() : {kind}
  %result = linalg.generic {{
      indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]}}
      ins(%input : {kind}) outs(%init : {kind}) {{
  ^bb0(%x: f32, %_: f32):
    {scalars(SPELLED[name])}
    linalg.yield %y : f32
  }} -> {kind}
  func.return %result : {kind}
}}"""
    x = np.random.default_rng(0).uniform(-9, 9, (3, size)).astype(np.float32)
    (y,) = np.asarray(convir.compile(text, device="host")(x)).reshape(1, 3, size)
    assert np.max(units_off(y.ravel(), EXACT[name](x.ravel()))) <= (4 if name == "gelu" else 2)
