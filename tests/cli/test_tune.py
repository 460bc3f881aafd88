"""`convir-bench --tune` without a GPU: which configs are measured, checked, timed and recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from gpu import nvrtc_or_skip

from convir.cli.arguments.parser import Part
from convir.cli.bench import main
from convir.cli.jobs import bench_tune
from convir.cli.jobs.bench_tune import Wanted, compile_ahead, kernels_to_tune, tune
from convir.frontends.miopen import parse_line
from convir.lowering.implementations import GEMM
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.records.read import read_records
from convir.lowering.selection.records.record import Measurement, machine_of
from convir.lowering.selection.records.write import save
from convir.reference.checking.compare import Difference
from convir.runtime.bench.candidate import Candidate
from convir.runtime.bench.session import Effort
from convir.runtime.bench.tune import FIRST_ROUNDS, ConfigToMeasure, Expected, measure_configs
from convir.runtime.cache.object_cache import FOLDER_VARIABLE
from convir.runtime.cuda.toolchain.usage import Usage

if TYPE_CHECKING:
    from pathlib import Path

    from convir.dialects.conv.problem import ConvProblem
    from convir.runtime.program import Program

NHWC = "--in_layout NHWC --fil_layout NHWC --out_layout NHWC"
LINE = f"convfp16 -n 3 -c 64 -H 6 -W 6 -k 32 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"
GPU = replace(DEFAULT_TARGET, name="Some GPU")
MOST = 100
"""More than any template has configs."""
EFFORT = Effort(seed=0, budget_s=1.0, rounds=5)


def problem(line: str) -> ConvProblem:
    (found,) = parse_line(line).problems.values()
    return found


class FakeBench:
    """A device on which a config takes as many µs as `us` says; one that is not there is wrong."""

    name = "cuda:0"
    prepares_weights = False

    def __init__(self, us: dict[str, float]) -> None:
        self.us = us
        self.calls: list[str] = []
        self.now = ""

    def describe(self) -> dict[str, Any]:
        return {}

    def ceilings(self, dtype: str) -> Any:
        raise NotImplementedError(dtype)

    def inputs(self, problem: ConvProblem, seed: int) -> list[Any]:
        return [problem, seed]

    def rearranged(self, problem: ConvProblem) -> list[Any]:
        raise NotImplementedError(problem)

    def arranged(self, operand: Any, axes: Any) -> Any:
        raise NotImplementedError(axes)

    def ours(self, backend: str, executable: Any, inputs: Any) -> Candidate:
        del executable, inputs
        return self.candidate(backend)

    def candidate(self, config: str) -> Candidate:
        def call() -> None:
            self.calls.append(config)
            self.now = config

        return Candidate(config, "", config, call, lambda: config in self.us, lambda: None)

    def peer(self, name: str, problem: ConvProblem, inputs: Any) -> list[Any]:
        raise NotImplementedError(name)

    def expected(self, problem: ConvProblem, inputs: Any, formula: Any) -> Any:
        return True

    def difference(self, expected: Any, result: Any, relative: float) -> Difference:
        return Difference(0, float(result != expected), relative)

    def clock(self, call: Any, repeats: int) -> float:
        del repeats
        call()
        return self.us[self.now]


def configs(bench: FakeBench, names: str) -> list[ConfigToMeasure]:
    return [ConfigToMeasure(name, f"code of {name}", lambda name=name: bench.candidate(name))
            for name in names]  # fmt: skip


def test_configs_are_checked_before_they_are_timed() -> None:
    bench = FakeBench({"a": 100.0, "c": 10.0, "d": 11.0})
    found = measure_configs(configs(bench, "abcd"), bench, Expected(True, 0.0), EFFORT)
    assert [each.config for each in found] == ["a", "b", "c", "d"]
    assert found[0] == Measurement("a", "code of a", (100.0, 100.0, 100.0))
    assert found[1].us is None
    assert found[1].failure is not None
    assert found[1].failure.startswith("wrong: error 1")
    assert bench.calls.count("b") == 1
    # Only those near the fastest are worth more calls, and they take turns.
    assert bench.calls.count("c") > bench.calls.count("a") > FIRST_ROUNDS
    assert "cdcd" in "".join(bench.calls)


def test_what_cannot_be_loaded_is_recorded_as_such() -> None:
    def fails() -> Candidate:
        raise ValueError("no such kernel")

    bench = FakeBench({"a": 1.0})
    each = [ConfigToMeasure("x", "code", fails), *configs(bench, "a")]
    found = measure_configs(each, bench, Expected(True, 0.0), EFFORT)
    assert found[0] == Measurement("x", "code", None, "ValueError: no such kernel")
    assert found[1].us == (1.0, 1.0, 1.0)
    assert measure_configs(each[:1], bench, Expected(True, 0.0), EFFORT)[0].us is None


def loaded(program: Program) -> Any:
    """What stands for an executable where nothing runs it."""
    return program


def test_records_of_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.jsonl"
    (kernel,) = kernels_to_tune([problem(LINE), problem(LINE)], GPU, Wanted(file, MOST))
    names = list(kernel.kernel.candidates.launches)
    us = {config: 10.0 + number for number, config in enumerate(reversed(names))}
    assert tune([kernel], FakeBench(us), loaded, EFFORT, file) == 0
    out = capsys.readouterr().out
    assert "1 kernels measured" in out
    assert names[0].split()[0] in out
    (record,) = read_records(file)
    assert record.machine == machine_of(GPU)
    assert record.best is not None
    assert record.best.config == names[-1]
    assert [each.config for each in record.measurements] == names
    assert not kernels_to_tune([problem(LINE)], GPU, Wanted(file, MOST))
    assert not kernels_to_tune([problem(LINE)], GPU, Wanted(file, MOST, stale=True))
    older = replace(record.measurements[0], code="older")
    save(file, [replace(record, measurements=(older, *record.measurements[1:]))])
    assert not kernels_to_tune([problem(LINE)], GPU, Wanted(file, MOST))
    assert len(kernels_to_tune([problem(LINE)], GPU, Wanted(file, MOST, stale=True))) == 1
    # Code of another compiler is not compared, configs are.
    by_another = replace(record, compiler="another", measurements=(older, *record.measurements[1:]))
    save(file, [by_another])
    assert not kernels_to_tune([problem(LINE)], GPU, Wanted(file, MOST, stale=True))
    save(file, [replace(by_another, measurements=record.measurements[1:])])
    assert len(kernels_to_tune([problem(LINE)], GPU, Wanted(file, MOST, stale=True))) == 1
    us.pop(names[0])
    assert tune([kernel], FakeBench(us), loaded, EFFORT, file) == 1
    assert "wrong: error 1" in capsys.readouterr().out
    assert read_records(file)[0].measurements[0].us is None


@pytest.mark.parametrize(("spilling", "status"), [(1, 0), (MOST, 1)])
def test_configs_that_spill_are_skipped_while_another_one_runs(
    spilling: int,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "records.jsonl"
    (kernel,) = kernels_to_tune([problem(LINE)], GPU, Wanted(file, 4))
    assert len(kernel.configs) > 1
    sources = [launch.source for launches in kernel.configs.values() for launch in launches]

    def usage(source: str, arch: str) -> dict[str, Usage]:
        del arch
        spilled = 4096 if sources.index(source) >= len(sources) - spilling else 0
        return {
            launch.symbol: Usage(255, 0, spilled)
            for launches in kernel.configs.values()
            for launch in launches
            if launch.source == source
        }

    monkeypatch.setattr(bench_tune, "kernel_usage", usage)
    us = dict.fromkeys(kernel.configs, 10.0)
    assert tune([kernel], FakeBench(us), loaded, EFFORT, file) == status
    (record,) = read_records(file)
    skipped = [m for m in record.measurements if m.us is None]
    assert len(skipped) == min(spilling, len(us))
    assert all("spills 4096 bytes of registers" in (m.failure or "") for m in skipped)
    out = capsys.readouterr().out
    assert ("skipped" in out, "failed" in out) == (True, False)


def test_every_config_of_a_kernel_lowers_to_one_program(tmp_path: Path) -> None:
    line = LINE.replace("-y 3 -x 3 -p 1 -q 1", "-y 1 -x 1")
    (kernel,) = kernels_to_tune([problem(line)], GPU, Wanted(tmp_path / "none", MOST))
    for config, launches in kernel.kernel.candidates.launches.items():
        text = str(kernel.module.lowered(kernel.kernel, config))
        assert ("rt.gemm" in text) == (not launches)
        assert kernel.kernel.candidates.refusal(config) is None


def test_parts_are_all_kernels_once(tmp_path: Path) -> None:
    file = tmp_path / "none"
    sizes = [LINE.replace("-n 3", f"-n {number}") for number in range(3, 8)]
    problems = [problem(line) for line in sizes]
    parts = [
        [each.problem for each in kernels_to_tune(problems, GPU, Wanted(file, 1, part=part))]
        for part in (Part(1, 2), Part(2, 2))
    ]
    assert [len(part) for part in parts] == [3, 2]
    assert {str(each) for part in parts for each in part} == {str(each) for each in problems}
    # Each has large ones and small ones.
    assert parts[0][0] == problems[-1]
    assert parts[1][0] == problems[-2]


def test_few_likely_configs_are_measured(tmp_path: Path) -> None:
    def configs_of(line: str, most: int) -> list[str]:
        (kernel,) = kernels_to_tune([problem(line)], GPU, Wanted(tmp_path / "none", most))
        return list(kernel.configs)

    everything = configs_of(LINE, MOST)
    few = configs_of(LINE, 4)
    assert few == [config for config in everything if config in few]
    families = [config.split()[0] for config in few]
    counts = {family: families.count(family) for family in families}
    assert counts == {family: 4 if family == families[0] else 1 for family in families}
    assert set(families) == {config.split()[0] for config in everything}
    product = LINE.replace("-y 3 -x 3 -p 1 -q 1", "-y 1 -x 1")
    assert GEMM in configs_of(product, 1)


def test_kernels_are_compiled_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc_or_skip()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (kernel,) = kernels_to_tune([problem(LINE)], GPU, Wanted(tmp_path / "none", MOST))
    few = list(kernel.kernel.candidates.launches.items())[-2:]
    compile_ahead([replace(kernel, configs=dict(few))], GPU, 1)
    cubins = [path for path in (tmp_path / "cubins").rglob("*") if path.is_file()]
    assert len(cubins) == len({launch.source for _, launches in few for launch in launches})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--tune", "--device", "cuda", "--against", "cudnn"],
            "--tune cannot be combined with --against",
        ),
        (["--stale"], "--stale, --records, --configs and --part belong to --tune"),
        (["--records", "x"], "--stale, --records, --configs and --part belong to --tune"),
        (["--configs", "4"], "--stale, --records, --configs and --part belong to --tune"),
        (["--part", "1/2"], "--stale, --records, --configs and --part belong to --tune"),
        (["--tune", "--device", "cuda", "--part", "3/2"], "'3/2' is not a part such as 2/4"),
        (["--tune", "--device", "cuda", "--part", "0/2"], "'0/2' is not a part such as 2/4"),
        (["--tune", "--device", "cuda", "--configs", "0"], "--configs is at least 1"),
    ],
)
def test_wrong_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *LINE.split()]) == 2
    assert message in capsys.readouterr().err
