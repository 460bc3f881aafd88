"""Which convolutions were timed beside cuDNN: from results of `convir-bench` to `convir.pytorch`.

    python benchmarks/pytorch_comparisons.py RESULTS… [--write]

Results are those of `convir-bench --device cuda --against cudnn --json FILE`, where cuDNN's time is
that in the layout of the line, and those of `benchmarks/pytorch_training.py --json FILE`; of a
shape that is in several, the last counts. Printed is what the
comparisons would say of each line if it were not among them: how many are taken, and the least
ratio of those. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convir.analysis.refusal import Refusal
from convir.dialects.conv.geometry import Direction
from convir.frontends.miopen import parse_line
from convir.pytorch.comparisons.known import (
    FASTER,
    Comparison,
    expected,
    file_of,
    written,
)
from convir.pytorch.comparisons.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from convir.pytorch.signature import Pass

_DIRECTIONS: Mapping[Direction, Pass] = {
    Direction.FPROP: "forward",
    Direction.DGRAD: "backward data",
    Direction.WGRAD: "backward weight",
}


def shape_of_line(line: str, *, tf32: bool) -> Shape | None:
    """The shape of a MIOpenDriver line, None where PyTorch has no such convolution."""
    (problem,) = parse_line(line).problems.values()
    geometry = problem.geometry
    lasts = {str(layout).endswith("C") for layout in geometry.layouts}
    if len(lasts) != 1 or geometry.pad_low != geometry.pad_high or problem.dtype == "f64":
        return None
    return Shape(
        _DIRECTIONS[problem.direction],
        "tf32" if tf32 and problem.dtype == "f32" else problem.dtype,
        "last" if lasts.pop() else "first",
        problem.n,
        problem.c,
        problem.k,
        problem.spatial,
        problem.taps,
        geometry.strides,
        geometry.pad_low,
        geometry.dilations,
        geometry.groups,
    )


def comparisons_in(results: Mapping[str, Any]) -> Iterable[Comparison]:
    """The comparisons of one file of results."""
    tf32 = bool(results["environment"].get("cudnn.allow_tf32"))
    times: dict[Shape, dict[str, float]] = {}
    for row in results["rows"]:
        for entry in row.get("census", ()):
            shape = shape_of_line(entry["line"], tf32=tf32) if entry["line"] else None
            if shape is not None and entry["convir_us"] is not None:
                times[shape] = {
                    "convir": round(entry["convir_us"], 2),
                    "cudnn": round(entry["pytorch_us"], 2),
                }
        shape = shape_of_line(row["line"], tf32=tf32) if row.get("line") else None
        if shape is None or row["failure"] or not row["us"]:
            continue
        order = "last" if row["layout"].endswith("C") else "first"
        if row["backend"] == "convir" or (row["backend"] == "cudnn" and order == shape.order):
            times.setdefault(shape, {})[row["backend"]] = round(row["us"]["median"], 2)
    for shape, us in times.items():
        if us.keys() == {"convir", "cudnn"}:
            yield Comparison(shape, us["convir"], us["cudnn"])


def told(known: list[Comparison], gpu: str) -> str:
    """What the comparisons say of each of them, it being unknown."""
    taken: list[Comparison] = []
    for each in known:
        others = [other for other in known if other is not each]
        if not isinstance(expected(each.shape, others, gpu), Refusal):
            taken.append(each)
    faster = sum(each.takes for each in known)
    least = sorted(each.ratio for each in taken)
    return (
        f"{len(known)} shapes, {faster} of them {FASTER} times as fast as cuDNN and more; of those "
        f"like others, none known itself, {len(taken)} are taken; their least ratios: "
        + ", ".join(f"{ratio:.2f}" for ratio in least[:5])
    )


def main() -> None:
    """Collect, tell, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="replace the GPU's comparisons")
    given = parser.parse_args()
    found: dict[Shape, Comparison] = {}
    gpus: set[tuple[str, int]] = set()
    for path in given.results:
        results = json.loads(path.read_text())
        gpus.add((results["environment"]["gpu"], results["environment"]["multiprocessors"]))
        found |= {each.shape: each for each in comparisons_in(results)}
    if len(gpus) != 1:
        raise SystemExit(f"results of one kind of GPU are wanted, found those of {gpus}")
    (gpu,) = gpus
    known = list(found.values())
    print(told(known, gpu[0]))
    if given.write:
        file_of(*gpu).write_text("".join(f"{written(each)}\n" for each in known), encoding="utf-8")


if __name__ == "__main__":
    main()
