"""What pipelines and partitions of backward-weight templates are worth, in µs on one GPU.

    python benchmarks/wgrad_choices.py partitions > $OUT/wgrad-partitions-h200.txt
    python benchmarks/wgrad_choices.py roles > $OUT/wgrad-roles-h200.txt
    python benchmarks/wgrad_choices.py roles --compile-only   # fills the cache, without a GPU

`partitions`: split-K as the best of 1, 2, 4, 8, 16 and 32 parts, stream-K linear and tree, on the
eight problems of `wgrad-streamk.txt`. `roles`: warps that load and warps that multiply against
uniform warps, the best config of each and of each template, on twelve problems of RetinaNet. cuDNN
is measured in the same run, and every result is compared with its.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer
from convir.lowering.kernels.cuda.multi_tap_wgrad import candidates as multi_tap_candidates
from convir.lowering.kernels.cuda.multi_tap_wgrad import launch as multi_tap_wgrad
from convir.lowering.kernels.cuda.multi_tap_wgrad import predict as taps_wgrad_predict
from convir.lowering.kernels.cuda.multi_tap_wgrad.config import MAX_COLUMNS
from convir.lowering.kernels.cuda.multi_tap_wgrad.problem import multi_tap_problem
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.cuda.sm80_implicit_gemm import candidates as implicit_gemm_candidates
from convir.lowering.kernels.cuda.sm80_implicit_gemm import launch as implicit_gemm
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import candidates as row_packed_candidates
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad import launch as row_packed_wgrad
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.cycles import cycles_of
from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.problem import row_packed_problem
from convir.lowering.kernels.cuda.sm90_wgrad import candidates as sm90_wgrad_candidates
from convir.lowering.kernels.cuda.sm90_wgrad import launch as sm90_wgrad
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.outline_kernels import outlined
from convir.passes import run
from convir.runtime.cuda.launch import LoadedKernel
from convir.runtime.cuda.toolchain.compile import compile_cubin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.kernels.cuda.multi_tap_wgrad.config import MultiTapWgradConfig
    from convir.lowering.kernels.cuda.sm90_row_packed_wgrad.config import RowPackedWgradConfig
    from convir.lowering.kernels.cuda.sm90_wgrad.config import Sm90WgradConfig

SUITES = Path(__file__).parent / "suites"
ROUNDS = 20
TILES = 2
"""Tiles tried with every partition, the best as the rule has them."""
PIPELINES = 4
"""Configs tried of each pipeline of a template, likewise."""

MARKED = (
    (36, 7, 1), (36, 100, 1), (36, 13, 1), (36, 25, 1), (36, 50, 1), (256, 100, 1),
    (256, 13, 2), (256, 25, 2), (256, 7, 1), (256, 13, 1), (2376, 50, 1), (2376, 100, 1),
)  # fmt: skip
"""Columns, size and step of the problems where CK's pipeline with roles is its fastest."""

PARTITIONS = {
    "split-K": (
        "data-parallel",
        *(f"split-k:{n}:{how}" for n in (2, 4, 8, 16, 32) for how in ("linear", "slices")),
    ),
    "linear": ("stream-k:linear",),
    "tree": ("stream-k:tree",),
}


@dataclass(frozen=True)
class Case:
    """One config of one problem, in one column of the table."""

    problem: ConvProblem
    column: str
    config: str
    plan: KernelPlan


def contraction_of(problem: ConvProblem) -> ContractionProblem:
    """What templates see of a convolution."""
    module = run(ModuleOp([function_of("main", problem)]), "default").module
    FuseEpiloguePass().apply(new_context(), module)
    FormKernelRegionsPass().apply(new_context(), module)
    regions = [op for op in module.walk() if isinstance(op, kernel.RegionOp)]
    found = [read_problem(outlined(region, "k")[0]) for region in regions]
    (contraction,) = [one for one in found if isinstance(one, ContractionProblem)]
    return contraction


def multi_tap_configs(found: ContractionProblem) -> list[MultiTapWgradConfig]:
    """The configs of `multi_tap_wgrad`, best first, also where selection prefers other
    templates."""
    seen = multi_tap_problem(found.contraction, found.epilogue)
    if isinstance(seen, Refusal):
        return []
    configs = multi_tap_candidates.candidates(found.contraction, seen, DEFAULT_TARGET)
    return sorted(configs, key=lambda c: _us(found, c))


def _us(found: ContractionProblem, config: MultiTapWgradConfig) -> float:
    return taps_wgrad_predict.predict(found.contraction, found.epilogue, config, DEFAULT_TARGET)


def partition_cases(problem: ConvProblem) -> Iterable[Case]:
    """Every partition of the best tiles of both families."""
    found = contraction_of(problem)
    families: list[tuple[Any, list[Any]]] = [(multi_tap_wgrad, list(multi_tap_configs(found)))]
    planned = sm90_wgrad_candidates.plan(found.contraction, found.epilogue, DEFAULT_TARGET)
    families.append((sm90_wgrad, [] if isinstance(planned, Refusal) else list(planned)))
    for family, configs in families:
        name = "taps" if family is multi_tap_wgrad else "wgmma"
        found_tiles = 0
        tiles: dict[str, Any] = {}
        for config in configs:
            base = _divided(config, Partition())
            tiles.setdefault(str(base).split()[1], base)
        for base in tiles.values():
            cases = [
                Case(problem, f"{name} {column}", str(config), plan)
                for column, texts in PARTITIONS.items()
                for text in texts
                for config in [_divided(base, Partition.parse(text))]
                for plan in [
                    family.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
                ]
                if isinstance(plan, KernelPlan)
            ]
            yield from cases
            found_tiles += bool(cases)
            if found_tiles == TILES:
                break


def _divided(config: Any, partition: Partition) -> Any:
    """A config with another partition, whose parts meet in global memory."""
    alone = {"cluster": 1} if hasattr(config, "cluster") else {}
    return replace(config, partition=partition, **alone)


def row_packed_configs(found: ContractionProblem) -> list[RowPackedWgradConfig]:
    """The configs of `sm90_row_packed_wgrad`, best first."""
    spec, seen = (
        found.contraction,
        row_packed_problem(found.contraction, found.epilogue),
    )
    if isinstance(seen, Refusal) or spec.out_channels > MAX_COLUMNS:
        return []
    configs = row_packed_candidates.candidates(spec, seen, DEFAULT_TARGET)
    return sorted(configs, key=lambda c: cycles_of(spec, seen, c))


def role_cases(problem: ConvProblem) -> Iterable[Case]:
    """The best configs of either pipeline, of every template that has one of them."""
    found = contraction_of(problem)
    asked = (found.contraction, found.epilogue, DEFAULT_TARGET)
    dense = _planned(sm90_wgrad_candidates.plan(*asked))
    both: list[tuple[Any, list[Any]]] = [
        (row_packed_wgrad, list(row_packed_configs(found))),
        (multi_tap_wgrad, list(multi_tap_configs(found))),
        # The rule has few uniform ones: all of its tiles are tried so.
        (sm90_wgrad, list(dict.fromkeys(c for config in dense for c in _pipelines(config)))),
    ]
    families = [
        (column, family, [config for config in configs if (config.roles[0] > 0) == has_roles])
        for family, configs in both
        for column, has_roles in (("roles", True), ("uniform", False))
    ]
    families.append(("uniform", implicit_gemm, _planned(implicit_gemm_candidates.plan(*asked))))
    for column, family, configs in families:
        for config in configs[:PIPELINES]:
            plan = family.kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
            if isinstance(plan, KernelPlan):
                template = str(config).partition(" ")[0]
                yield Case(problem, f"{column} {template}", str(config), plan)


def _pipelines(config: Sm90WgradConfig) -> Iterable[Sm90WgradConfig]:
    """A config as it is, and without warps that load."""
    yield config
    yield replace(config, roles=(0, config.roles[1]))


def _planned(configs: tuple[Any, ...] | Refusal) -> list[Any]:
    return [] if isinstance(configs, Refusal) else list(configs)


def marked() -> list[str]:
    """The lines of the twelve problems."""
    layouts = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
    return [
        f"convfp16 -n 32 -c 256 -H {size} -W {size} -k {k} -y 3 -x 3 -p 1 -q 1 -u {step} -v {step}"
        f" -l 1 -j 1 -g 1 -F 4 {layouts}"
        for k, size, step in MARKED
    ]


class Clock:
    """Times plans on the GPU, and compares what they store with cuDNN's."""

    def __init__(self) -> None:
        from convir.runtime.bench.cuda import CudaBench  # noqa: PLC0415  (needs a GPU)

        self.bench = CudaBench(0)

    def cudnn(self, problem: ConvProblem, inputs: list[Any]) -> tuple[float, Any]:
        """µs of cuDNN's best layout, and its result."""
        found: list[tuple[float, Any]] = []
        for candidate in self.bench.peer("cudnn", problem, inputs):
            call: Any = getattr(candidate, "call", None)
            if call is not None:
                call()
                found.append((self.us(call), candidate))
        best, candidate = min(found, key=lambda pair: pair[0])
        return best, candidate.result()

    def us(self, call: Any) -> float:
        """The median of some calls."""
        call()
        return median(self.bench.clock(call, 1) for _ in range(ROUNDS))

    def plan(self, case: Case, inputs: list[Any], expected: Any) -> float:
        """µs of a plan.

        Raises:
            ArithmeticError: its result is another than cuDNN's.
        """
        import torch  # noqa: PLC0415

        out = torch.full(case.problem.shapes[2], torch.nan, device="cuda", dtype=torch.float16)
        scratch = [
            torch.empty(size, device="cuda", dtype=torch.uint8) for size in case.plan.workspace
        ]
        state = [torch.zeros(size, device="cuda", dtype=torch.uint8) for size in case.plan.state]
        memory = {Pointer("a"): inputs[0], Pointer("c"): inputs[1], Pointer("b"): out}
        memory |= {Pointer("workspace", i): buffer for i, buffer in enumerate(scratch)}
        memory |= {Pointer("state", i): buffer for i, buffer in enumerate(state)}
        places = {pointer: (number, 0) for number, pointer in enumerate(memory)}
        addresses = [tensor.data_ptr() for tensor in memory.values()]
        kernels = [LoadedKernel(one, places) for one in case.plan.kernels]

        def call() -> None:
            for one in kernels:
                one.launch(addresses, 0)

        torch.cuda.synchronize()
        time = self.us(call)
        error = (out.double() - expected.double()).abs().max() / expected.double().abs().max()
        if not float(error) < 2.0**-9:
            raise ArithmeticError(f"{case.config}: {float(error)} of the largest weight")
        return time


def main() -> None:
    """Print the table, or only compile for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("table", choices=("partitions", "roles"))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    is_roles = arguments.table == "roles"
    suite = (SUITES / "wgrad-streamk.txt").read_text().splitlines()
    lines = marked() if is_roles else [line for line in suite if not line.startswith("#")]
    problems = [problem for line in lines for problem in parse_line(line).problems.values()]
    cases = {p: list(role_cases(p) if is_roles else partition_cases(p)) for p in problems}
    if arguments.compile_only:
        sources = {one.source for each in cases.values() for c in each for one in c.plan.kernels}
        with ProcessPoolExecutor(arguments.jobs) as pool:
            list(pool.map(compile_cubin, sources, [DEFAULT_TARGET.arch] * len(sources)))
        return
    clock = Clock()
    where = clock.bench.describe()
    print(", ".join(f"{key} {where[key]}" for key in ("gpu", "driver", "cudnn", "clock")))
    for problem, each in cases.items():
        inputs = list(clock.bench.inputs(problem, 1))
        cudnn, expected = clock.cudnn(problem, inputs)
        best: dict[str, tuple[float, str]] = {}
        for case in each:
            try:
                found = (clock.plan(case, inputs, expected), case.config)
            except Exception as error:
                print(f"failed: {error}")
                continue
            best[case.column] = min(found, best.get(case.column, found))
        print(f"{problem.line()}\n  {cudnn:8.1f} cudnn")
        for column, (time, config) in best.items():
            print(f"  {time:8.1f} {column:22} {cudnn / time:5.2f}  {config}")
        if is_roles:
            print(f"           uniform / roles        {_ratios(best)}")


def _ratios(best: Mapping[str, tuple[float, str]]) -> str:
    """How much longer the best uniform config takes than the best one with roles, over all
    templates and within each that has both."""
    times: dict[str, dict[str, float]] = {}
    for column, (time, _) in best.items():
        pipeline, template = column.split()
        times.setdefault(pipeline, {})[template] = time
    uniform, roles = times["uniform"], times["roles"]
    within = "".join(f", {t} {uniform[t] / roles[t]:.2f}" for t in roles if t in uniform)
    return f"{min(uniform.values()) / min(roles.values()):5.2f}{within}"


if __name__ == "__main__":
    main()
