"""Implicit builders of several threads.

`ImplicitBuilder`, which linalg's named ops write their bodies with, keeps its builder per thread,
but wraps `Operation.__post_init__`, of all threads, on its way in, and puts the old one back on its
way out. Where two threads overlap, one wraps the other's: an op is added twice, which is an error,
or stays wrapped for good. Wrapped once and for all, it looks at its own thread's builder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl import builder
from xdsl.ir import Operation

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Wrap it; to be called once."""
    override = builder._override_operation_post_init  # pyright: ignore[reportPrivateUsage]
    override()
    wrapped = Operation.__post_init__

    def stays() -> Callable[[Operation], None]:
        return wrapped

    builder._override_operation_post_init = stays  # pyright: ignore[reportPrivateUsage]
