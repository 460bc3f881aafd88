"""Constants that do not stand in the text: weights in a file beside it.

    %w = conv.constant #conv.blob<"model.onnx", "conv1.weight", "9f86d0…"> : tensor<64x3x7x7xf32>

The blob names a file (relative to the text, where that stands in a file itself), a tensor in it
(an initializer of an ONNX model, an array of an .npz, a range of the numbers of a list in a .nam:
`"config.weights[12:76]"`) and the SHA-256 digest of its elements, row-major and little-endian.
Nothing is read before the elements are needed, and then the digest is checked. A constant that was
computed in this process holds its elements instead, until a tool writes them to a file.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr, TensorType
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    param_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xdsl.ir import Attribute, Operation
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

_DIGEST = re.compile("[0-9a-f]{64}")
_RANGE_KEY = re.compile(r"(.+)\[(\d+):(\d+)\]")


def digest_of(data: bytes | memoryview) -> str:
    """The SHA-256 digest of the bytes of a tensor's elements, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def range_key(path: str, begin: int, end: int) -> str:
    """What the numbers `begin` to `end` (exclusive) of the list at `path` in a .nam are called."""
    return f"{path}[{begin}:{end}]"


def parse_range_key(key: str) -> tuple[str, int, int] | None:
    """The path, the begin and the end that `range_key` made `key` of; None if it did not."""
    found = _RANGE_KEY.fullmatch(key)
    return None if found is None else (found[1], int(found[2]), int(found[3]))


@irdl_attr_definition
class BlobAttr(ParametrizedAttribute):
    """The elements of a tensor that lies in a file: `#conv.blob<"FILE", "KEY", "DIGEST">`."""

    name = "conv.blob"

    file: StringAttr = param_def()
    """The file's path: .onnx, .npz or .nam."""
    key: StringAttr = param_def()
    """What the file calls the tensor."""
    digest: StringAttr = param_def()
    """SHA-256 of the elements, in hexadecimal."""

    def __init__(self, file: str, key: str, digest: str) -> None:
        super().__init__(StringAttr(file), StringAttr(key), StringAttr(digest))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Three strings in angle brackets."""
        with parser.in_angle_brackets():
            words = [parser.parse_str_literal()]
            for _ in range(2):
                parser.parse_punctuation(",")
                words.append(parser.parse_str_literal())
        return [StringAttr(word) for word in words]

    def print_parameters(self, printer: Printer) -> None:
        """As they are parsed."""
        with printer.in_angle_brackets():
            printer.print_list(
                (self.file, self.key, self.digest),
                lambda word: printer.print_string_literal(word.data),
            )

    def verify(self) -> None:
        """The digest has the form of one."""
        if _DIGEST.fullmatch(self.digest.data) is None:
            raise VerifyException(f'"{self.digest.data}" is not a SHA-256 digest in hexadecimal')


def move_blobs(module: Operation, moved: Callable[[str], str]) -> None:
    """Let every blob of `module` name `moved(FILE)` instead of FILE."""
    for op in module.walk():
        blob = op.properties.get("value")
        if isinstance(blob, BlobAttr):
            file = moved(blob.file.data)
            op.properties["value"] = BlobAttr(file, blob.key.data, blob.digest.data)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A tensor whose elements stand in a file, or in memory until they are written to one."""

    name = "conv.constant"

    value = prop_def(BlobAttr | DenseIntOrFPElementsAttr)
    result = result_def(TensorType)
    assembly_format = "attr-dict $value `:` type($result)"
    traits = traits_def(Pure(), ConstantLike())

    def __init__(
        self, value: BlobAttr | DenseIntOrFPElementsAttr, tensor_type: TensorType[Attribute]
    ) -> None:
        super().__init__(result_types=[tensor_type], properties={"value": value})

    def verify_(self) -> None:
        result = self.result.type
        if not result.has_static_shape():
            raise VerifyException(f"a constant has a static shape, got {result}")
        if isinstance(self.value, DenseIntOrFPElementsAttr) and self.value.type != result:
            raise VerifyException(f"the elements are of {self.value.type}, the result is {result}")
