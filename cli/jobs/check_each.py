"""`--check-budget`: what one check may take."""

from __future__ import annotations

from convir.cli.arguments.parser import UsageError
from convir.reference.checking.check import Budget


def parse_budget(text: str | None) -> Budget:
    """The budget written `BYTES` or `BYTES,FLOPS`; the default one where nothing is written.

    Raises:
        UsageError: it is not one or two positive numbers.
    """
    if text is None:
        return Budget()
    try:
        numbers = [int(float(part)) for part in text.split(",")]
        budget = Budget(*numbers)
    except (OverflowError, TypeError, ValueError) as exc:
        raise UsageError(f"--check-budget: '{text}' is not BYTES[,FLOPS]") from exc
    if min(numbers) <= 0:
        raise UsageError(f"--check-budget: '{text}' is not positive")
    return budget
