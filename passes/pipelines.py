"""Named pipelines: plain tuples of passes, each line with the reason it stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convir.passes.assign_layout import AssignLayoutPass
from convir.passes.batch_gemms.pass_ import BatchGemmsPass
from convir.passes.canonicalize.pass_ import CanonicalizePass
from convir.passes.convert_conv_to_linalg.pass_ import ConvertConvToLinalgPass
from convir.passes.convert_filter_to_channels_last import ConvertFilterToChannelsLastPass
from convir.passes.convert_integer_conv_to_float import ConvertIntegerConvToFloatPass
from convir.passes.convert_strided_insert_slice_to_generic.pass_ import (
    ConvertStridedInsertSliceToGenericPass,
)
from convir.passes.decompose_strided_dgrad.pass_ import DecomposeStridedDgradPass
from convir.passes.fold_constants import FoldConstantsPass
from convir.passes.inline import InlinePass
from convir.passes.manager.fixpoint import FixpointPass
from convir.passes.swap_strided_insert_slice_with_contraction.pass_ import (
    SwapStridedInsertSliceWithContractionPass,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.passes import ModulePass

_WITHOUT_HOLES = FixpointPass(
    (
        # Casts and reshapes between a scatter and what reads it, which would hide one from the
        # other; the zeros, fills and reshapes that the rewrites below orphan or stack up.
        CanonicalizePass(),
        # On the scatters as they were written: what it moves behind its contraction takes the holes
        # out of the contraction for nothing. Then on phases: one of one tap reads its padding as
        # what stood before the phases read their scatter.
        SwapStridedInsertSliceWithContractionPass(),
        # No rewrite below changes which loops there are, which the choice of a filter's layout
        # depends on; phases that come after it slice one transposed filter.
        ConvertFilterToChannelsLastPass(),
        # What is still scattered under a contraction has windows that overlap: a dense contraction
        # for each residue of the stride, with its own taps, meets no hole.
        DecomposeStridedDgradPass(),
    )
)

_SCATTERS = (
    _WITHOUT_HOLES,
    # Scatters that phases are too dear for, or that could not be taken apart. One pass writes them;
    # the store of a finished result stays an insert_slice, for its producer to absorb.
    ConvertStridedInsertSliceToGenericPass(only_contraction_inputs=True),
)

BACKWARD_DATA: tuple[ModulePass, ...] = (
    # The rewrites below read linalg; what comes as conv becomes the same scatter and contraction.
    ConvertConvToLinalgPass(),
    FixpointPass(_SCATTERS),
)
"""Strided backward data convolutions without multiplications by zero where that is possible."""

DEFAULT: tuple[ModulePass, ...] = (
    # A device runs one function; the rewrites below see through no call.
    InlinePass(),
    # Casts and reshapes that a front end wrote between ops, which would hide one from the other.
    CanonicalizePass(),
    # The scales of folded normalisations, which no pass from here on need walk over.
    FoldConstantsPass(only_arithmetic=True),
    # A loop over samples has no kernel; the products inside of it do, once they are one op.
    BatchGemmsPass(),
    # On a device whose kernels multiply no bytes; while ops say that they are convolutions.
    ConvertIntegerConvToFloatPass(),
    # On conv ops, which say what their layouts are; kernels find channels as neighbours.
    AssignLayoutPass(),
    ConvertConvToLinalgPass(),
    FixpointPass(
        (
            FixpointPass(_SCATTERS),
            # Samples whose scatters have moved out of the way; phases of one output each.
            BatchGemmsPass(),
            # Behind the rewrites above, which flip and repack filters, and see an addressing in
            # that as long as it is an op of its own. What was folded may be equal, and so what is
            # computed from it.
            FoldConstantsPass(),
        )
    ),
)
"""What `convir.compile` runs: every rewrite that is not a choice."""

PIPELINES: Mapping[str, tuple[ModulePass, ...]] = {
    "default": DEFAULT,
    "backward-data": BACKWARD_DATA,
}
"""Pipeline name to its passes, in order."""
