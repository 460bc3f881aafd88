"""A process that compiles in the background, and leaves what it made in the caches on disk.

`python -m convir.pytorch.compile.worker` reads requests from its standard input and writes answers
to its standard output, each a pickled object, until the input ends. PyTorch is not imported.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convir.analysis.refusal import Refusal
from convir.pytorch.compile.compilation import Source, compiled, planned, refusal_of, source_of

if TYPE_CHECKING:
    from convir.lowering.kernels.target import Target
    from convir.pytorch.signature import Signature
    from convir.runtime.cuda.plan import CudaPlan


@dataclass(frozen=True)
class Request:
    """What to compile."""

    signature: Signature
    workspace_bytes: int
    gpu: Target | None = None
    """What its GPU is; None for the host."""


@dataclass(frozen=True)
class Answer:
    """What a request's program is made from; the rest is in the caches."""

    source: Source
    plan: CudaPlan | None = None
    """For a GPU."""


def answer(request: Request) -> Answer | Refusal:
    """What was made for a request, or why it was not."""
    signature, size = request.signature, request.workspace_bytes
    try:
        source = source_of(signature)
        if isinstance(source, Refusal):
            return source
        if request.gpu is not None:
            plan = planned(signature, source, size, request.gpu)
            return plan if isinstance(plan, Refusal) else Answer(source, plan)
        found = compiled(signature, source, size)
        return found if isinstance(found, Refusal) else Answer(source)
    except Exception as error:
        return refusal_of(error)


def main() -> None:
    """Answer requests until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # The compiler may print: only answers go to standard output.
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(answer(request), answers)
        answers.flush()


if __name__ == "__main__":
    from convir.pytorch.compile import worker  # The classes of pickled objects have one home.

    worker.main()
