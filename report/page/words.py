"""Times as people read them."""

from __future__ import annotations

_THOUSAND, _MILLION = 1e3, 1e6


def us_text(us: float | None) -> str:
    """`0.42 µs`, `139 µs`, `401 ms`; `not predicted` where nobody knows."""
    if us is None:
        return "not predicted"
    if us >= _MILLION:
        return f"{us / _MILLION:.3g} s"
    if us >= _THOUSAND:
        return f"{us / _THOUSAND:.3g} ms"
    return f"{us:.3g} µs" if us >= 1 else f"{us:.2f} µs"


def arrows(text: str) -> str:
    """A text of figures with arrows as people write them."""
    return text.replace(" -> ", " → ")
