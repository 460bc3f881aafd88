"""The table of named linalg ops: one line each, from which maps, loops, bodies and classes follow.

A line gives the loops in order and, for each operand, the expression of every dimension:

- `c` is the loop `c` itself;
- `h+r` walks a window: `stride * h + dilation * r`, the strides and dilations being those of the
  op, one of each per window in the order in which the first operand has them.

A loop is parallel where the output has it, and a reduction elsewhere. The letters are those of
the field: N batch, G group, C input channel, F output channel, M channel multiplier, D H W
position in the output, T R S offset in the filter.

Loop orders and maps are those of MLIR's linalg dialect, since they are visible in the IR.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir.affine import AffineExpr, AffineMap

MUL_ADD = "mul_add"
"""The body `out + cast(lhs) * cast(rhs)`."""


@dataclass(frozen=True)
class NamedSpec:
    """One named op."""

    name: str
    """Without the dialect, e.g. `conv_2d_nhwc_hwcf`."""
    loops: tuple[str, ...]
    operands: tuple[tuple[str, ...], ...]
    """One expression per dimension, for each input and then the output."""
    combine: str
    """`mul_add`, or the scalar op that folds the first input into the output."""

    @property
    def windows(self) -> int:
        """The number of window dimensions: of strides and of dilations. Zero without a window."""
        return sum("+" in expression for expression in self.operands[0])

    @property
    def ranks(self) -> tuple[int, ...]:
        """The rank of each operand."""
        return tuple(map(len, self.operands))

    @property
    def iterator_types(self) -> ArrayAttr[IteratorTypeAttr]:
        """Parallel for the loops that the output has, reduction for the others."""
        return _iterator_types(self)

    def indexing_maps(
        self, strides: tuple[int, ...] = (), dilations: tuple[int, ...] = ()
    ) -> ArrayAttr[AffineMapAttr]:
        """One map per operand; strides and dilations, if given, have one entry per window."""
        ones = (1,) * self.windows
        return _indexing_maps(self, strides or ones, dilations or ones)


@cache
def _iterator_types(spec: NamedSpec) -> ArrayAttr[IteratorTypeAttr]:
    output = spec.operands[-1]
    return ArrayAttr(
        IteratorTypeAttr.parallel() if loop in output else IteratorTypeAttr.reduction()
        for loop in spec.loops
    )


@cache
def _indexing_maps(
    spec: NamedSpec, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> ArrayAttr[AffineMapAttr]:
    steps = list(zip(strides, dilations, strict=True))
    maps: list[AffineMapAttr] = []
    for operand in spec.operands:
        windows = iter(steps)
        results: list[AffineExpr] = []
        for expression in operand:
            position, _, offset = expression.partition("+")
            result = AffineExpr.dimension(spec.loops.index(position))
            if offset:
                stride, dilation = next(windows)
                result = result * stride + AffineExpr.dimension(spec.loops.index(offset)) * dilation
            results.append(result)
        maps.append(AffineMapAttr(AffineMap(len(spec.loops), 0, tuple(results))))
    return ArrayAttr(maps)


# Name: loops : inputs, … -> output.
_CONTRACTIONS = """
    dot          : k               : k, k -> .
    matvec       : m k             : m k, k -> m
    vecmat       : n k             : k, k n -> n
    matmul       : m n k           : m k, k n -> m n
    mmt4d        : m n k M N K     : m k M K, n k N K -> m n M N
    batch_matvec : b m k           : b m k, b k -> b m
    batch_vecmat : b n k           : b k, b k n -> b n
    batch_matmul : b m n k         : b m k, b k n -> b m n
    batch_reduce_matmul : b m n k  : b m k, b k n -> m n
    batch_mmt4d  : b m n k M N K   : b m k M K, b n k N K -> b m n M N
"""

# These have neither strides nor dilations.
_CORRELATIONS = """
    conv_1d : w s         : w+s, s -> w
    conv_2d : h w r s     : h+r w+s, r s -> h w
    conv_3d : d h w t r s : d+t h+r w+s, t r s -> d h w
"""

_CONVOLUTIONS = """
    conv_1d_ncw_fcw     : n f w c s           : n c w+s, f c s -> n f w
    conv_1d_nwc_wcf     : n w f s c           : n w+s c, s c f -> n w f
    conv_2d_nchw_fchw   : n f h w c r s       : n c h+r w+s, f c r s -> n f h w
    conv_2d_nhwc_hwcf   : n h w f r s c       : n h+r w+s c, r s c f -> n h w f
    conv_2d_nhwc_fhwc   : n h w f r s c       : n h+r w+s c, f r s c -> n h w f
    conv_2d_ngchw_fgchw : n g f h w c r s     : n g c h+r w+s, f g c r s -> n g f h w
    conv_2d_ngchw_gfchw : n g f h w c r s     : n g c h+r w+s, g f c r s -> n g f h w
    conv_2d_nhwgc_gfhwc : n h w g f r s c     : n h+r w+s g c, g f r s c -> n h w g f
    conv_3d_ncdhw_fcdhw : n f d h w c t r s   : n c d+t h+r w+s, f c t r s -> n f d h w
    conv_3d_ndhwc_dhwcf : n d h w f t r s c   : n d+t h+r w+s c, t r s c f -> n d h w f
    depthwise_conv_1d_ncw_cw      : n w c s         : n c w+s, c s -> n c w
    depthwise_conv_1d_nwc_wc      : n w c s         : n w+s c, s c -> n w c
    depthwise_conv_1d_nwc_wcm     : n w c m s       : n w+s c, s c m -> n w c m
    depthwise_conv_2d_nchw_chw    : n h w c r s     : n c h+r w+s, c r s -> n c h w
    depthwise_conv_2d_nhwc_hwc    : n h w c r s     : n h+r w+s c, r s c -> n h w c
    depthwise_conv_2d_nhwc_hwcm   : n h w c m r s   : n h+r w+s c, r s c m -> n h w c m
    depthwise_conv_3d_ncdhw_cdhw  : n d h w t r s c : n c d+t h+r w+s, c t r s -> n c d h w
    depthwise_conv_3d_ndhwc_dhwc  : n d h w t r s c : n d+t h+r w+s c, t r s c -> n d h w c
    depthwise_conv_3d_ndhwc_dhwcm : n d h w m t r s c : n d+t h+r w+s c, t r s c m -> n d h w c m
"""

# The kernel operand of a pooling gives its window's size, and its values are not read.
_POOLINGS = """
    pooling_nwc   : n w c s         : n w+s c, s -> n w c                 : add SIGNED UNSIGNED
    pooling_ncw   : n c w s         : n c w+s, s -> n c w                 : add max
    pooling_nhwc  : n h w c r s     : n h+r w+s c, r s -> n h w c         : add SIGNED UNSIGNED
    pooling_nchw  : n c h w r s     : n c h+r w+s, r s -> n c h w         : add max
    pooling_ndhwc : n d h w c t r s : n d+t h+r w+s c, t r s -> n d h w c : add SIGNED
"""


def _operands(text: str) -> tuple[tuple[str, ...], ...]:
    inputs, output = text.split("->")
    operands = (*inputs.split(","), output)
    return tuple(() if part.strip() == "." else tuple(part.split()) for part in operands)


def _mul_adds(lines: str) -> list[NamedSpec]:
    rows = (line.split(":") for line in lines.strip().splitlines())
    return [
        NamedSpec(name.strip(), tuple(loops.split()), _operands(operands), MUL_ADD)
        for name, loops, operands in rows
    ]


def _poolings(lines: str) -> list[NamedSpec]:
    specs: list[NamedSpec] = []
    for line in lines.strip().splitlines():
        name, loops, operands, combines = line.split(":")
        names = combines.replace("UNSIGNED", "max_unsigned min_unsigned")
        for combine in names.replace("SIGNED", "max min").split():
            suffix = "sum" if combine == "add" else combine
            specs.append(
                NamedSpec(
                    f"{name.strip()}_{suffix}", tuple(loops.split()), _operands(operands), combine
                )
            )
    return specs


CONTRACTIONS = {spec.name: spec for spec in _mul_adds(_CONTRACTIONS)}
"""Products of matrices and vectors, by name."""
CORRELATIONS = {spec.name: spec for spec in _mul_adds(_CORRELATIONS)}
"""Convolutions of one channel at stride 1, by name."""
CONVOLUTIONS = {spec.name: spec for spec in _mul_adds(_CONVOLUTIONS)}
"""Convolutions, by name."""
POOLINGS = {spec.name: spec for spec in _poolings(_POOLINGS)}
"""Poolings, by name."""
