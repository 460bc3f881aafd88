"""A process that compiles in the background, and leaves what it made in the caches on disk.

`python -m convir.pytorch.compile_worker` reads requests from its standard input and writes answers
to its standard output, each a pickled object, until the input ends. PyTorch is not imported.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.pytorch.compilation import Source, compiled, source_of

if TYPE_CHECKING:
    from convir.pytorch.signature import Signature


@dataclass(frozen=True)
class Request:
    """What to compile."""

    signature: Signature
    workspace_bytes: int


def answer(request: Request) -> Source | Refusal:
    """The source of a request, whose program is in the cache then, where one can be."""
    try:
        source = source_of(request.signature)
        if isinstance(source, Source) and request.signature.device == "host":
            found = compiled(request.signature, source, request.workspace_bytes)
            return found if isinstance(found, Refusal) else source
        return source
    except Exception as error:  # Whatever it is, PyTorch's kernel computes it.
        return Refusal(f"{type(error).__name__}: {error}")


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What the compiler prints is no answer.
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(answer(request), answers)
        answers.flush()


if __name__ == "__main__":
    from convir.pytorch import compile_worker  # The classes of pickled objects have one home.

    compile_worker.main()
