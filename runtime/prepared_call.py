"""A call with everything prepared that does not depend on where its arrays lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class RawCall(Protocol):
    """Runs a program on memory that its caller keeps."""

    def __call__(self, addresses: Sequence[int], workspace: int = 0, stream: int = 0) -> None:
        """Run the program once, or enqueue it."""
        ...


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A program by addresses alone: no array is looked at, made or kept.

    The caller answers for what `Executable` checks: memory of the program's shapes and dtypes,
    dense, at addresses that are multiples of `alignment`; outputs that overlap nothing else.
    Calls from several threads may overlap.
    """

    run: RawCall
    """`run(addresses, workspace, stream)`: where each input begins, and after them each output;
    where `workspace_bytes` bytes of temporaries lie, at a multiple of 256, on a GPU; and the
    address of the stream, on a GPU, whose context is the thread's current one. A GPU only
    enqueues, captures included; the memory is the call's own until that is done."""
    workspace_bytes: int
    """The temporaries of one call; 0 where the program has its own."""
    alignment: int = 1
    """Bytes that every address is a multiple of, beside that of its elements."""
    steps: Callable[[], CallSteps | None] | None = None
    """What `run` does, for callers that do so themselves; None where only `run` can, or as long as
    it has not run yet."""


@dataclass(frozen=True, slots=True)
class CallSteps:
    """What a call does, as numbers.

    A place is two numbers: that of a memory, and bytes into it. Memories are the call's addresses,
    its workspace, and `memories`.
    """

    workspace_bytes: int
    """The workspace, at a multiple of 256 on a GPU and of 64 on the host."""
    memories: tuple[tuple[bool, int], ...]
    """Each is bytes into the workspace (true), or an address that stays."""
    steps: tuple[tuple[int, ...], ...]
    """On a GPU `ZERO`, a place and bytes; `COPY`, where to, where from and bytes; `LAUNCH`, a
    function, its grid and block, bytes of shared memory, whether it is cooperative, the number of
    its arguments and each: `ADDRESS` and a place; `MAP`, a place and where a tensor map of the
    buffer elsewhere lies; `NUMBER` and its value. On the host `RUN`, the words of the thread pool
    (`ThreadPool.run_words`), the number of its launches and of each: what is launched
    (`ThreadPool.described`, without its arguments), the number of its pointers, and their
    places."""


ZERO, COPY, LAUNCH, RUN = range(4)
ADDRESS, MAP, NUMBER = range(3)
