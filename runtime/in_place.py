"""Whether a program may update its states in place, in memory that is argument and result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from convir.runtime.program import Copy, Memories, Space, StreamSpec

Touched = tuple[bool, tuple[int, ...]]
"""Whether a step is a copy, and the memories that it reads and writes, by their positions in
`memory_positions`: of a copy these are its source and its target."""


def check_in_place(program: Memories, stream: StreamSpec, steps: Iterable[Touched]) -> None:
    """Refuse programs that are no stream's, or read a state after they have begun to write it.

    A state may be copied from argument to result first, which is nothing where both are one memory.

    Raises:
        ValueError: `program` is such a one.
    """
    states, first_output = stream.states, len(program.inputs)
    if states != len(program.inputs) - 1 or states != len(program.outputs) - 1:
        raise ValueError("a stream's program takes one block, gives one, and all else are states")
    copied, written = set[int](), set[int]()
    for is_copy, touched in steps:
        if is_copy and touched[1] == first_output + touched[0]:
            copied.add(touched[0])
            continue
        for state in range(1, states + 1):
            if state in touched and state in written:
                raise ValueError(f"state {state - 1} of a stream's program is read after a write")
            if first_output + state in touched:
                written.add(state)
    missing = [state - 1 for state in range(1, states + 1) if state not in copied]
    if missing:
        raise ValueError(f"states {missing} of a stream's program are not updated in place")


def copied(copy: Copy, first: dict[Space, int]) -> Touched:
    """What a copy touches; `first` is that of `memory_positions`."""
    return True, tuple(first[end.space] + end.index for end in (copy.source, copy.out))
