"""ONNX models with mistakes in them: of structure, and of bytes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx_cases import model_of, node

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

INTEGERS = (0, 1, -1, 2, 3, -4, 7, 64, 10**6, 10**7, 2**31, 2**47, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("nan"))
NAMES = ("", "x", "y", "w", "s", "a", "none", "\x00", "é\n")
MANY = 100_000
"""Entries of an absurd list."""


def models() -> list[Any]:
    """Small models in which every family of operators occurs."""
    rng = np.random.default_rng(0)

    def f32(*shape: int) -> Any:
        return rng.uniform(0.5, 1, shape).astype(np.float32)

    def i64(*values: int) -> Any:
        return np.array(values, np.int64)

    image = {"x": (1, 4, 6, 6)}
    normalized = [
        node("Conv", ["x", "w", "b"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=2),
        node("BatchNormalization", ["a", "s", "s", "s", "s"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    shaped = [
        node("Shape", ["x"], ["a"]),
        node("Gather", ["a", "s"], ["b"]),
        node("Mul", ["b", "s"], ["n"]),
        node("Concat", ["n", "m"], ["c"], axis=0),
        node("Reshape", ["x", "c"], ["y"]),
    ]
    pooled = [
        node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0]),
        node("AveragePool", ["a"], ["b"], kernel_shape=[2, 2], pads=[1, 0, 1, 0]),
        node("GlobalAveragePool", ["b"], ["c"]),
        node("Flatten", ["c"], ["d"]),
        node("Gemm", ["d", "w", "b2"], ["e"], transB=1),
        node("Softmax", ["e"], ["y"], axis=1),
    ]
    moved = [
        node("Pad", ["x", "p"], ["a"], mode="reflect"),
        node("Slice", ["a", "i", "j", "k"], ["b"]),
        node("Split", ["b", "h"], ["c", "d"], axis=1),
        node("Transpose", ["c"], ["e"], perm=[0, 1, 3, 2]),
        node("Unsqueeze", ["e", "u"], ["f"]),
        node("Squeeze", ["f", "u"], ["g"]),
        node("ReduceMean", ["g"], ["y"], axes=[2], keepdims=1),
    ]
    scaled = [
        node("Resize", ["x", "", "s"], ["a"], mode="linear"),
        node("DepthToSpace", ["a"], ["b"], blocksize=2),
        node("LRN", ["b"], ["c"], size=3),
        node("Clip", ["c", "l", "h"], ["d"]),
        node("InstanceNormalization", ["d", "o", "o"], ["y"]),
    ]
    spread = [
        node("ConvTranspose", ["x", "w"], ["a"], strides=[2, 2], output_padding=[1, 1]),
        node("ConstantOfShape", ["z"], ["b"]),
        node("Add", ["a", "b"], ["c"]),
        node("Range", ["r0", "r1", "r2"], ["d"]),
        node("ReduceSum", ["c", "d"], ["y"]),
    ]
    constants: list[tuple[list[Any], dict[str, Any]]] = [
        (normalized, {"w": f32(6, 2, 3, 3), "b": f32(6), "s": f32(6)}),
        (shaped, {"s": i64(0, 1), "m": i64(-1)}),
        (pooled, {"w": f32(5, 4), "b2": f32(5)}),
        (
            moved,
            {
                **{"p": i64(0, 0, 1, 1, 0, 0, 2, 2), "i": i64(1, 0), "j": i64(9, 7)},
                **{"k": i64(2, 3), "h": i64(1, 3), "u": i64(1)},
            },
        ),
        (
            scaled,
            {
                **{"s": np.array([1, 1, 2, 1.5], np.float32), "o": f32(1)},
                **{"l": np.float32(0).reshape(()), "h": np.float32(6).reshape(())},
            },
        ),
        (
            spread,
            {
                **{"w": f32(4, 2, 3, 3), "z": i64(1, 1, 14, 1)},
                **{name: np.int64(n).reshape(()) for name, n in (("r0", 1), ("r1", 3), ("r2", 1))},
            },
        ),
    ]
    return [model_of(nodes, image, ["y"], tensors) for nodes, tensors in constants]


class ModelMutator:
    """Draws models with one or a few mistakes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._models = [model.SerializeToString() for model in models()]
        self._proto: Callable[[], Any] = import_module("onnx").ModelProto

    def draw(self) -> bytes:
        """The bytes of a model, or of what was one."""
        content = self.rng.choice(self._models)
        if self.rng.random() < 0.3:
            return self.damaged(content)
        model = self._proto()
        model.ParseFromString(content)
        for _ in range(self.rng.choice((1, 1, 1, 2, 4))):
            self.rng.choice(MUTATIONS)(self, model)
        return model.SerializeToString()

    def damaged(self, content: bytes) -> bytes:
        """Bytes flipped, cut out, doubled or cut off."""
        data = bytearray(content)
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            at = self.rng.randrange(len(data))
            length = self.rng.choice((1, 2, 8, 40))
            kind = self.rng.randrange(5)
            if kind == 0:
                data[at] = self.rng.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << self.rng.randrange(8)
            elif kind == 2 and len(data) > length:
                del data[at : at + length]
            elif kind == 3:
                data[at:at] = data[at : at + length]
            elif self.rng.random() < 0.3:
                del data[max(at, 1) :]
        return bytes(data)

    def tensor(self, model: Any) -> None:
        """Another shape, type, field or number of bytes of a tensor."""
        tensors = [*model.graph.initializer]
        tensors += [a.t for n in model.graph.node for a in n.attribute if a.HasField("t")]
        if not tensors:
            return
        tensor = self.rng.choice(tensors)
        kind = self.rng.randrange(7)
        if kind == 0 and tensor.dims:
            tensor.dims[self.rng.randrange(len(tensor.dims))] = self.rng.choice(INTEGERS)
        elif kind == 1:
            tensor.dims.extend([self.rng.choice((0, 1, 1, -1, 2))] * self.rng.choice((1, 2, 70)))
        elif kind == 2:
            tensor.data_type = self.rng.choice((0, 2, 7, 8, 9, 10, 14, 16, 21, 25, 99, -1))
        elif kind == 3:
            tensor.raw_data = tensor.raw_data[: self.rng.randrange(len(tensor.raw_data) + 1)]
        elif kind == 4:
            tensor.int64_data.extend([self.rng.choice(INTEGERS)])
        elif kind == 5:
            tensor.data_location = 1
            for key, value in (("location", "w.bin"), ("offset", "-1"), ("length", "x")):
                if self.rng.random() < 0.7:
                    tensor.external_data.add(key=key, value=value)
        else:
            dtype = {7: np.int64, 1: np.float32}.get(tensor.data_type, np.uint8)
            values = np.frombuffer(tensor.raw_data, np.uint8)[
                : len(tensor.raw_data) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
            ].view(dtype)
            drawn = INTEGERS if dtype != np.float32 else FLOATS
            values = np.array(values)
            if values.size and dtype != np.uint8:
                values[self.rng.randrange(values.size)] = self.rng.choice(drawn)
            tensor.raw_data = values.tobytes()

    def attribute(self, model: Any) -> None:
        """Another value, type, name or number of an attribute."""
        owner = self.rng.choice(model.graph.node)
        if not owner.attribute:
            owner.attribute.add(name="axis", type=2, i=self.rng.choice(INTEGERS))
            return
        attribute = self.rng.choice(owner.attribute)
        kind = self.rng.randrange(8)
        if kind == 0:
            attribute.i = self.rng.choice(INTEGERS)
        elif kind == 1 and attribute.ints:
            attribute.ints[self.rng.randrange(len(attribute.ints))] = self.rng.choice(INTEGERS)
        elif kind == 2:
            attribute.ints.extend([self.rng.choice(INTEGERS)] * self.rng.choice((1, 2, MANY)))
        elif kind == 3:
            attribute.type = self.rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 14))
        elif kind == 4:
            attribute.name = self.rng.choice(("axis", "pads", "group", "é", ""))
        elif kind == 5:
            owner.attribute.add().CopyFrom(attribute)
        elif kind == 6:
            attribute.s = self.rng.choice((b"\xff\xfe", b"NOTSET", b"cubic", b"x" * MANY))
        else:
            attribute.f = self.rng.choice(FLOATS)

    def edge(self, model: Any) -> None:
        """Another reader or writer of a value."""
        owner = self.rng.choice(model.graph.node)
        names = self.rng.choice((owner.input, owner.output))
        found = [name for n in model.graph.node for name in (*n.input, *n.output)]
        name = self.rng.choice((*NAMES, *found))
        kind = self.rng.randrange(3)
        if kind == 0:
            names.append(name)
        elif names:
            at = self.rng.randrange(len(names))
            if kind == 1:
                names[at] = name
            else:
                del names[at]

    def nodes(self, model: Any) -> None:
        """A node that is gone, doubled, elsewhere, or of another operator."""
        nodes = model.graph.node
        at, other = (self.rng.randrange(len(nodes)) for _ in range(2))
        kind = self.rng.randrange(5)
        if kind == 0 and len(nodes) > 1:
            del nodes[at]
        elif kind == 1:
            nodes.add().CopyFrom(nodes[at])
        elif kind == 2:
            order = [*nodes]
            order[at], order[other] = order[other], order[at]
            copies: Any = import_module("onnx").GraphProto()
            copies.node.extend(order)
            nodes.MergeFrom(copies.node)
            del nodes[: len(order)]
        elif kind == 3:
            from convir.frontends.onnx.ops import OPERATORS  # noqa: PLC0415  (brings xDSL along)

            nodes[at].op_type = self.rng.choice((*OPERATORS, "Constant", "Range", "Shape", "If"))
        else:
            nodes[at].domain = self.rng.choice(("", "ai.onnx", "com.microsoft", "é"))

    def graph(self, model: Any) -> None:
        """Other inputs, outputs, or another version."""
        ports = self.rng.choice((model.graph.input, model.graph.output))
        kind = self.rng.randrange(6)
        if kind == 0:
            model.opset_import[0].version = self.rng.choice((*INTEGERS, 6, 9, 10, 11, 13, 18, 22))
        elif not ports:
            return
        elif kind == 1:
            ports.add().CopyFrom(self.rng.choice(ports))
        elif kind == 2:
            del ports[self.rng.randrange(len(ports))]
        else:
            tensor = self.rng.choice(ports).type.tensor_type
            if kind == 3:
                tensor.elem_type = self.rng.choice((0, 1, 7, 8, 10, 16, 99))
            elif kind == 4 or not tensor.shape.dim:
                tensor.shape.dim.add().dim_value = self.rng.choice(INTEGERS)
            else:
                self.rng.choice(tensor.shape.dim).dim_value = self.rng.choice(INTEGERS)


MUTATIONS: tuple[Callable[[ModelMutator, Any], None], ...] = (
    *(ModelMutator.tensor, ModelMutator.attribute) * 2,
    ModelMutator.edge,
    ModelMutator.nodes,
    ModelMutator.graph,
)
