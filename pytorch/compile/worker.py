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
from convir.pytorch.compile.compilation import Source, Wanted, compiled, refusal_of, source_of
from convir.pytorch.compile.configs import plans_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convir.lowering.kernels.target import Target
    from convir.runtime.cuda.plan import CudaPlan


@dataclass(frozen=True)
class Request:
    """What to compile."""

    wanted: Wanted
    gpu: Target | None = None
    """What its GPU is; None for the host."""


@dataclass(frozen=True)
class Answer:
    """What a request's programs are made from; the rest is in the caches."""

    source: Source
    plans: Mapping[str, CudaPlan]
    """For a GPU, by config."""


def answer(request: Request) -> Answer | Refusal:
    """What was made for a request, or why it was not."""
    try:
        source = source_of(request.wanted.signature)
        if isinstance(source, Refusal):
            return source
        if request.gpu is not None:
            plans = plans_of(request.wanted, source, request.gpu)
            return plans if isinstance(plans, Refusal) else Answer(source, plans)
        found = compiled(request.wanted, source, {})
        return found if isinstance(found, Refusal) else Answer(source, {})
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
