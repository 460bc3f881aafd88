"""What follows a contraction in its kernel, as a device functor applied before the store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.fused import EpilogueOperand
    from convir.lowering.bodies.contraction.spec import ComputeType, StorageType

_DIGEST_LETTERS = 16

CPP_TYPES: dict[StorageType, str] = {
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f32": "float",
    "f64": "double",
    "i32": "int",
}
"""The C++ name of every type that operands are stored in."""


@dataclass(frozen=True)
class Epilogue:
    """From a sum to what is stored.

    `body` computes the stored value `y` from the sum `x`; `zero_fill` computes it where the kernel
    stores without a sum. Both are C++ statements over `p.e0[at[0]]`, `p.e1[at[1]]`, …, the elements
    of the operands.
    """

    sum: ComputeType
    stored: StorageType
    body: str
    zero_fill: str
    operands: tuple[EpilogueOperand, ...] = ()
    rounds_only: bool = False
    """Whether what is stored is the sum, rounded once or not at all."""
    zero_fills_are_zero_sums: bool = False
    """Whether what is stored in a zero-filled output is what is stored for a sum of zero."""
    zero_fills_read_operands: bool = False
    """Whether what is stored in a zero-filled output depends on operands."""
    has_functions: bool = False
    """Whether `body` has a transcendental function, which takes as long as many other ops."""

    @property
    def operands_refusal(self) -> Refusal | None:
        """Why kernels that read no operands do not compute it; None if they do."""
        return Refusal("its epilogue has operands") if self.operands else None

    @property
    def signature(self) -> str:
        """Canonical text: equal texts, equal epilogues."""
        text = f"{self.body}\n{self.zero_fill}\n{self.operands}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LETTERS]
        return f"epilogue={self.sum}:{self.stored}:{digest}"

    @property
    def source(self) -> str:
        """The functor, a C++ struct `Epilogue` over `arith/scalars.cuh`.

        `Epilogue::apply(x, p, at)` is what is stored for the sum x and `Epilogue::zero_fill(p, at)`
        what is stored in a zero-filled output; `p` is an `Epilogue::Pointers` and `at` has the
        element of each of `Epilogue::kOperands` operands.
        """
        pointers = "".join(
            f" const {CPP_TYPES[operand.type]}* __restrict__ e{i};"
            for i, operand in enumerate(self.operands)
        )
        stored, total = CPP_TYPES[self.stored], CPP_TYPES[self.sum]
        arguments = "const Pointers& p, const long long* at"
        return (
            "struct Epilogue {\n"
            f"  using Stored = {stored};\n"
            f"  static constexpr int kOperands = {len(self.operands)};\n"
            f"  struct Pointers {{{pointers} }};\n"
            f"  static __device__ __forceinline__ Stored apply({total} x, {arguments}) {{\n"
            f"{self.body}    return y;\n  }}\n"
            f"  static __device__ __forceinline__ Stored zero_fill({arguments}) {{\n"
            f"{self.zero_fill}    return y;\n  }}\n"
            "};\n"
        )
