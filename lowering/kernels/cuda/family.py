"""What a family of kernels is: the configs that it has for a contraction, and their launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.dialects.refusal import Refusal
    from convir.lowering.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.config import KernelConfig
    from convir.lowering.kernels.cuda.epilogue import Epilogue
    from convir.lowering.kernels.cuda.launch import KernelPlan
    from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
    from convir.lowering.kernels.target import Target

Plans: TypeAlias = "Callable[[Contraction, Epilogue, Target], tuple[KernelConfig, ...] | Refusal]"
"""The configs that may compute a contraction on a GPU, best first, or why none may."""

Launches: TypeAlias = "Callable[[Contraction, Epilogue, Any, Target], KernelPlan | Refusal]"
"""The launches of one config, or why it is not legal for the contraction."""


@dataclass(frozen=True)
class Family:
    """A family of kernels."""

    name: str
    """The first word of its configs."""
    plan: Plans
    parse: Callable[[str], KernelConfig]
    """The config that prints as a text; raises ValueError where none does."""
    kernels: Launches
    with_partition: Callable[[Any, Partition], KernelConfig] | None = None
    """A config with another partition; None where a family has no choice."""
    with_roles: Callable[[Any, int, int], KernelConfig] | None = None
    """A config with so many warps that load and that multiply; None likewise."""
