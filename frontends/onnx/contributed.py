"""onnxruntime's operators on quantised tensors, as the standard ones that they stand for.

    QLinearAdd A, B  -->  QuantizeLinear(Add(DequantizeLinear(A), DequantizeLinear(B)))

onnxruntime's quantisation writes them in the domain `com.microsoft`. Operators between
DequantizeLinear and QuantizeLinear are computed on integers where that is known how
(`ops/integer_layers.py`), by the same rounding as these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.frontends.onnx.model import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from convir.frontends.elements import Array
    from convir.frontends.onnx.model import Model

DOMAIN = "com.microsoft"
_UNARY = {
    f"QLinear{op}": op
    for op in ("AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Softmax")
}
_BINARY = {f"QLinear{op}": op for op in ("Add", "Mul")}
_OWN = {"channels_last": 0, "opset": None}
"""Attributes that the standard operators lack, each with what they do without it; None if any."""


def with_standard_nodes(model: Model) -> Model:
    """The model with its contributed operators on quantised tensors written out; others stay."""
    if not any(node.domain == DOMAIN for node in model.nodes):
        return model
    constants = dict(model.constants)
    nodes = [part for node in model.nodes for part in _Parts(node, constants).nodes()]
    return replace(model, nodes=tuple(nodes), constants=constants)


@dataclass(frozen=True)
class _Parts:
    """What one node stands for."""

    node: Node
    constants: dict[str, Array]

    def nodes(self) -> Iterable[Node]:
        node = self.node
        if node.domain != DOMAIN:
            return [node]
        if node.op in ("QuantizeLinear", "DequantizeLinear"):
            return [replace(node, domain="")]
        if node.op in _UNARY:
            return self._around(_UNARY[node.op], [(0, 1, 2)], 3)
        if node.op in _BINARY:
            return self._around(_BINARY[node.op], [(0, 1, 2), (3, 4, 5)], 6)
        if node.op == "QLinearConcat":
            triples = [(at, at + 1, at + 2) for at in range(2, len(node.inputs), 3)]
            return self._around("Concat", triples, 0)
        return self._gemm() if node.op == "QGemm" else [node]

    def _input(self, position: int) -> str:
        inputs = self.node.inputs
        return inputs[position] if position < len(inputs) else ""

    def _around(self, op: str, read: Sequence[Sequence[int]], scale: int) -> list[Node]:
        """`op` on dequantised inputs: an integer, a scale and a zero point each."""
        parts = [
            self._part("DequantizeLinear", [self._input(at) for at in three], f"real{number}")
            for number, three in enumerate(read)
        ]
        kept = {
            name: value
            for name, value in self.node.attributes.items()
            if name not in _OWN or _OWN[name] not in (None, value)
        }
        parts.append(self._part(op, [part.outputs[0] for part in parts], "real", kept))
        return [*parts, self._quantised(parts[-1].outputs[0], scale)]

    def _gemm(self) -> list[Node]:
        """A Gemm, whose addend has the product of both scales."""
        scales = [self.constants.get(self._input(at)) for at in (1, 4)]
        attributes = dict(self.node.attributes)
        if attributes.pop("alpha", 1.0) != 1 or scales[0] is None or scales[1] is None:
            return [self.node]
        along = {"axis": 0 if attributes.get("transB", 0) else 1}
        parts = [
            self._part("DequantizeLinear", [self._input(at) for at in (0, 1, 2)], "real0"),
            self._part("DequantizeLinear", [self._input(at) for at in (3, 4, 5)], "real1", along),
        ]
        if self._input(6):
            scale, zero = self._name("scale"), self._name("zero")
            self.constants[scale] = scales[0].astype(np.float32) * scales[1].astype(np.float32)
            self.constants[zero] = np.zeros(self.constants[scale].shape, np.int32)
            addend = [self._input(6), scale, zero]
            parts.append(self._part("DequantizeLinear", addend, "real2", {"axis": 0}))
        reals = [part.outputs[0] for part in parts]
        if not self._input(7):
            return [*parts, replace(self.node, op="Gemm", domain="", inputs=tuple(reals))]
        parts.append(self._part("Gemm", reals, "real", attributes))
        return [*parts, self._quantised(parts[-1].outputs[0], 7)]

    def _name(self, role: str) -> str:
        return f"{self.node.outputs[0]}/{role}"

    def _part(
        self, op: str, inputs: Sequence[str], role: str, attributes: Mapping[str, Any] | None = None
    ) -> Node:
        return Node(
            name=self.node.name,
            op=op,
            domain="",
            inputs=tuple(inputs),
            outputs=(self._name(role),),
            attributes=attributes or {},
        )

    def _quantised(self, real: str, scale: int) -> Node:
        inputs = [real, self._input(scale), self._input(scale + 1)]
        return replace(self._part("QuantizeLinear", inputs, ""), outputs=self.node.outputs)
