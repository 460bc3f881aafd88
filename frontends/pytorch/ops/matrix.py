"""Matrix products, and attention."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import torch

from convir.frontends.pytorch.spelling import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.pytorch.call import AtenCall, Operator
    from convir.frontends.pytorch.spelling import Spelling


def product(spell: Spelling, a: Value, b: Value) -> Value:
    """The matrix product of the last two dimensions, the others broadcast."""
    left, right = list(a.shape), list(b.shape)
    if a.rank == 1:
        left = [1, *left]
    if b.rank == 1:
        right = [*right, 1]
    batch: list[int] = []
    count = max(len(left), len(right)) - 2
    for i in range(count):
        sizes = [
            shape[i - count + len(shape) - 2] if i - count + len(shape) - 2 >= 0 else 1
            for shape in (left, right)
        ]
        batch.append(sizes[1] if sizes[0] == 1 else sizes[0])
    rows = [] if a.rank == 1 else [left[-2]]
    columns = [] if b.rank == 1 else [right[-1]]
    return spell.node("MatMul", [a, b], [*batch, *rows, *columns])


def _product(call: AtenCall) -> Value:
    other = next(name for name in ("mat2", "other", "vec", "tensor") if name in call.arguments)
    return product(call.spell, call.floats(), call.floats(other))


def _scaled(call: AtenCall, value: Value, name: str) -> Value:
    factor = call.get(name, 1)
    if factor == 1:
        return value
    return call.spell.node("Mul", [value, call.spell.number(factor, value.dtype)], value.shape)


def _added_product(first: str, second: str) -> Operator:
    """beta * self + alpha * first @ second."""

    def spelled(call: AtenCall) -> Value:
        result = _scaled(
            call, product(call.spell, call.floats(first), call.floats(second)), "alpha"
        )
        if call.get("beta", 1) == 0:
            return result
        bias = _scaled(call, call.operand("self", call.dtype), "beta")
        return call.spell.node("Add", [result, bias], call.shape)

    return spelled


def _linear(call: AtenCall) -> Value:
    weight = call.floats("weight")
    order = list(range(weight.rank))[::-1]
    result = product(call.spell, call.floats("input"), call.spell.transpose(weight, order))
    if call.get("bias") is None:
        return result
    return call.spell.node("Add", [result, call.value("bias")], call.shape)


def _attention(call: AtenCall, query: Value, key: Value, value: Value) -> Value:
    """softmax(query @ key^T * scale + mask) @ value, of b x heads x rows x columns."""
    spell = call.spell
    scale = call.get("scale")
    factor = 1 / sqrt(query.shape[-1]) if scale is None else float(scale)
    if key.shape[-3] != query.shape[-3]:
        call.check(call.get("enable_gqa", False), "keys of another number of heads")
        key, value = (_repeated(spell, x, query.shape[-3]) for x in (key, value))
    query = spell.node("Mul", [query, spell.number(factor, query.dtype)], query.shape)
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = product(spell, query, spell.transpose(key, order))
    mask = call.get("attn_mask", call.get("attn_bias"))
    if isinstance(mask, Value):
        scores = _masked(spell, scores, mask)
    if call.get("is_causal", False):
        scores = _causal(spell, scores)
    weights = spell.node("Softmax", [scores], scores.shape, axis=-1)
    result = product(spell, weights, value)
    if not isinstance(mask, Value):
        return result
    zero = spell.number(0, result.dtype)
    return spell.node("Where", [_sees(spell, mask), result, zero], result.shape, result.dtype)


def _sees(spell: Spelling, mask: Value) -> Value:
    """Whether a row of the mask leaves anything: b x heads x rows x 1, as far as it has these."""
    shape = [*mask.shape[:-1], 1]
    least = spell.number(float("-inf"), torch.float32)
    if mask.dtype == torch.bool:
        zero = spell.number(0, torch.float32)
        mask = spell.node("Where", [mask, zero, least], mask.shape, torch.float32)
    mask = spell.cast(mask, torch.float32)
    most = spell.node("ReduceMax", [mask, spell.integers([mask.rank - 1])], shape, keepdims=1)
    none = spell.node("Equal", [most, least], shape, torch.bool)
    return spell.node("Not", [none], shape, torch.bool)


def _repeated(spell: Spelling, x: Value, heads: int) -> Value:
    """Each head of `x` as many times as it takes for `heads` of them."""
    *batch, count, rows, columns = x.shape
    each = heads // count
    wide = spell.reshape(x, [*batch, count, 1, rows, columns])
    wide = spell.expand(wide, [*batch, count, each, rows, columns])
    return spell.reshape(wide, [*batch, heads, rows, columns])


def _masked(spell: Spelling, scores: Value, mask: Value) -> Value:
    if mask.dtype != torch.bool:
        return spell.node("Add", [scores, spell.cast(mask, scores.dtype)], scores.shape)
    least = spell.number(float("-inf"), scores.dtype)
    return spell.node("Where", [mask, scores, least], scores.shape, scores.dtype)


def _causal(spell: Spelling, scores: Value) -> Value:
    rows, columns = scores.shape[-2:]
    seen = torch.ones(rows, columns, dtype=torch.bool).tril()
    return _masked(spell, scores, spell.tensor(seen))


def _whole_attention(call: AtenCall) -> Value:
    call.check(call.get("dropout_p", 0) == 0, "dropout in attention")
    return _attention(call, call.floats("query"), call.floats("key"), call.floats("value"))


def _attention_alone(call: AtenCall) -> Sequence[Value | None]:
    """An implementation of it, of whose results the first one is read."""
    return [_whole_attention(call), *[None] * (len(call.results) - 1)]


_IMPLEMENTATIONS = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)

OPERATORS: Mapping[str, Operator] = {
    **{f"aten.{name}.default": _product for name in ("mm", "bmm", "matmul", "mv", "dot")},
    "aten.addmm.default": _added_product("mat1", "mat2"),
    "aten.baddbmm.default": _added_product("batch1", "batch2"),
    "aten.linear.default": _linear,
    "aten.scaled_dot_product_attention.default": _whole_attention,
    **{f"aten.{name}.default": _attention_alone for name in _IMPLEMENTATIONS},
}
