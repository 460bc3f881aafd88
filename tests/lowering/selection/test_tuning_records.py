"""Tuning records: as text, in files that others write to as well, and in selection."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from conv_lines import NHWC
from cuda_contractions import contraction_of_line
from gpu import nvrtc_or_skip
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.bodies.contraction.signature import signature_of
from convir.lowering.implementations import CUDA, GEMM
from convir.lowering.kernels.cuda.launch import KernelPlan
from convir.lowering.kernels.cuda.old_spelling import read_config
from convir.lowering.kernels.registry import plan_on
from convir.lowering.kernels.target import DEFAULT_TARGET, Target, target_of
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.outline_kernels import outlined
from convir.lowering.selection.kernel_candidates import Candidates, candidates_of
from convir.lowering.selection.records.read import find, read_records, records_of, shipped_file
from convir.lowering.selection.records.record import TIE, Machine, Measurement, Record, machine_of
from convir.lowering.selection.records.write import save
from convir.lowering.selection.select_kernels import SelectKernelsPass
from convir.passes import run
from convir.passes.manager.remarks import collect
from convir.runtime.cuda.toolchain.compile import compiler, cubins_digest

if TYPE_CHECKING:
    from pathlib import Path

    from convir.lowering.kernels.cuda.problem import ContractionProblem

LINE = f"convfp16 -n 3 -c 64 -H 14 -W 12 -k 128 -y 3 -x 3 -p 1 -q 1 -F 1 {NHWC}"
GPU = replace(DEFAULT_TARGET, name="Some GPU")
MACHINE = machine_of(GPU)
SLOW = (9.0, 8.0, 10.0)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.integers(1, 10**6).map(lambda n: n / 100)
times = st.tuples(numbers, numbers, numbers)
configs = texts.filter(lambda text: read_config(text) == text)
measurements = st.builds(Measurement, configs, texts, times) | st.builds(
    Measurement, configs, texts, st.none(), texts
)
machines = st.builds(Machine, texts, st.integers(1, 300))
measured = st.lists(measurements, max_size=5).map(tuple)
records = st.builds(Record, machines, texts, texts, measured, st.none() | texts)


@given(records)
def test_records_print_and_parse(record: Record) -> None:
    assert "\n" not in record.line()
    assert Record.parse(record.line()) == record


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"machine": "x"', '{"measured": [{}]}'])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"record|Expecting|delimiter"):
        Record.parse(line)


def record(*configs: tuple[str, float | None], signature: str = "s") -> Record:
    found = tuple(
        Measurement(name, "code", None if us is None else (us, us, us), None if us else "wrong")
        for name, us in configs
    )
    return Record(MACHINE, signature, "a line", found)


def test_the_rule_is_kept_where_it_is_as_fast_as_the_fastest() -> None:
    fast, as_fast = 100.0, 100.0 * (1 + TIE / 2)
    for times_of_configs, best in {
        (as_fast, fast): "0",
        (100 * (1 + 2 * TIE), fast): "1",
        (None, 7.0, 5.0): "2",
    }.items():
        found = record(*((str(i), us) for i, us in enumerate(times_of_configs))).best
        assert found is not None
        assert found.config == best
    assert record(("a", None)).best is None


def test_machines_name_files() -> None:
    assert Machine("NVIDIA H200", 132).slug == "nvidia-h200-132"
    assert Machine("AMD EPYC(tm) 9654 / x", 8).slug == "amd-epyc-tm-9654-x-8"


def test_files_are_merged_and_read_again_when_they_change(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "records.jsonl"
    assert not records_of(MACHINE, (file,))
    save(file, [record(("a", 1.0), signature="one"), record(("a", 1.0), signature="two")])
    assert len(read_records(file)) == 2
    assert find(records_of(MACHINE, (file,)), (MACHINE, "one")) is not None
    save(file, [record(("b", 2.0), signature="two"), record(("c", 3.0), signature="three")])
    tables = records_of(MACHINE, (file,))
    best = {
        name: each.best.config
        for name in ("one", "two", "three")
        if (each := find(tables, (MACHINE, name))) is not None and each.best is not None
    }
    assert best == {"one": "a", "two": "b", "three": "c"}
    assert find(tables, (Machine("other", 1), "one")) is None
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_corrupt_file_is_a_miss_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "records.jsonl"
    for text in ("no record\n", '{"machine": 1}\n', f"{record(('a', 1.0)).line()[:-9]}\n"):
        caplog.clear()
        file.write_text(text)
        assert not records_of(MACHINE, (file,))
        assert "cannot be used, predictions decide" in caplog.text
    file.write_bytes(b"\xff\xfe\n")
    assert not records_of(MACHINE, (file,))
    save(file, [record(("a", 1.0))])
    assert len(read_records(file)) == 1
    assert (tmp_path / "records.jsonl.corrupt").exists()


SAVES = """
import pathlib, sys
from convir.lowering.selection.records.record import Machine, Record
from convir.lowering.selection.records.write import save
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 20):
    save(pathlib.Path(sys.argv[1]), [Record(Machine("x", 1), str(number), "a line", ())])
"""


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    command = [sys.executable, "-c", SAVES, str(file)]
    processes = [subprocess.Popen([*command, first]) for first in ("0", "20")]
    assert [process.wait() for process in processes] == [0, 0]
    assert {each.signature for each in read_records(file)} == set(map(str, range(40)))


def test_signatures_tell_kernels_apart() -> None:
    lines = [
        LINE,
        LINE.replace("-H 14", "-H 15"),
        LINE.replace("fp16", "bfp16"),
        LINE.replace("-F 1", "-F 2"),
        LINE.replace("-u 2", "-u 1").replace("-p 1", "-p 0"),
        LINE.replace(NHWC, ""),
    ]
    found = [signature(contraction_of_line(line)) for line in lines]
    assert len(set(found)) == len(lines)
    assert found[0] == signature(contraction_of_line(LINE))
    assert not any("\n" in each for each in found)


def signature(problem: ContractionProblem) -> str:
    return signature_of(problem.contraction, problem.epilogue.signature)


def selected(line: str, gpu: Target, file: Path) -> tuple[str, str]:
    """The config that is chosen for a line's only kernel, and why."""
    module = module_of(line)
    with collect() as remarks:
        SelectKernelsPass(CUDA, str(gpu), (str(file),)).apply(new_context(), module)
    (region,) = (op for op in module.walk() if isinstance(op, kernel.RegionOp))
    assert region.configs is not None
    return str(getattr(region.configs.data[CUDA], "data", "")), remarks[-1].reason


def module_of(line: str) -> ModuleOp:
    (problem,) = parse_line(line).problems.values()
    module = run(ModuleOp([function_of("main", problem)]), "backward-data").module
    FuseEpiloguePass().apply(new_context(), module)
    FormKernelRegionsPass().apply(new_context(), module)
    return module


def candidates(line: str) -> Candidates:
    (region,) = (op for op in module_of(line).walk() if isinstance(op, kernel.RegionOp))
    found = candidates_of(outlined(region, "k")[0], GPU)
    assert isinstance(found, Candidates)
    return found


def recorded(file: Path, line: str, config: str) -> None:
    """A file that says one config is the fastest of two."""
    first = Measurement("sm80_implicit_gemm slow", "?", SLOW)
    best = Measurement(config, "code", (5.0, 4.0, 6.0))
    save(file, [Record(MACHINE, candidates(line).signature, line, (first, best))])


def test_a_record_is_used_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "records.jsonl"
    ruled, reason = selected(LINE, GPU, file)
    assert "measured" not in reason
    found = candidates(LINE)
    assert next(iter(found.launches)) == ruled
    slowest = list(found.launches)[-1]
    recorded(file, LINE, slowest)
    config, reason = selected(LINE, GPU, file)
    assert config == slowest != ruled
    assert reason.endswith("measured, 5.0 µs, the best of 2 configs")
    assert not caplog.records
    for other in (replace(GPU, name="Another"), replace(GPU, multiprocessors=66), DEFAULT_TARGET):
        assert selected(LINE, other, file)[0].split()[0] == ruled.split()[0]
        assert "measured" not in selected(LINE, other, file)[1]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("sm90_implicit_gemm 128x128 stages=99 schedule=pingpong store=64 blocks=132", "shared"),
        ("sm80_implicit_gemm 128x128x32", "is not a config of sm80_implicit_gemm"),
        ("sm80_implicit_gemm 128x999x32 stages=4 warps=2x2", "not divided"),
        ("warp-magic 1", "no family"),
        ("simt_direct 1x1 warps=8 blocks=132x2", "no small groups"),
        (GEMM, "not a GEMM"),
    ],
)  # fmt: skip
def test_illegal_records_fall_through(
    config: str, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "records.jsonl"
    ruled, _ = selected(LINE, GPU, file)
    recorded(file, LINE, config)
    found, reason = selected(LINE, GPU, file)
    assert found == ruled
    assert f"not the record's '{config}'" in reason
    assert why in caplog.text
    assert "predictions decide" in caplog.text


def test_configs_for_another_gpu_are_refused() -> None:
    small = target_of("sm_86", multiprocessors=28, shared_bytes=99 << 10, name="Small")
    on_small = replace(candidates(LINE), gpu=small)
    wgmma = "sm90_implicit_gemm 128x128 stages=4 schedule=pingpong store=64 blocks=132"
    large = "sm80_implicit_gemm 128x256x32 stages=4 warps=2x4"
    for config, reason in ((wgmma, "has no wgmma"), (large, "bytes of shared memory")):
        assert reason in str(on_small.refusal(config))


def test_a_matrix_product_may_be_the_librarys() -> None:
    found = candidates(f"convfp16 -n 4 -c 2048 -H 64 -W 64 -k 2048 -y 1 -x 1 -F 1 {NHWC}")
    assert next(iter(found.launches)) == GEMM
    assert found.refusal(GEMM) is None
    assert len(found.launches) > 1


def test_what_is_shipped_is_legal() -> None:
    for file in shipped_file(MACHINE).parent.glob("*.jsonl"):
        for each in read_records(file):
            assert each.machine.slug == file.stem
            assert each.best is not None


def test_what_is_shipped_is_used(tmp_path: Path) -> None:
    shipped = read_records(shipped_file(machine_of(DEFAULT_TARGET)))
    assert shipped
    for each in shipped:
        assert each.best is not None
        config, reason = selected(each.problem, DEFAULT_TARGET, tmp_path / "none")
        assert config == each.best.config
        assert f"the best of {len(each.measurements)} configs" in reason


def test_what_is_shipped_was_measured_with_the_same_code() -> None:
    """The best config of every record compiles to the cubin that was measured."""
    nvrtc_or_skip()
    other: list[str] = []
    for each in read_records(shipped_file(machine_of(DEFAULT_TARGET))):
        if each.best is None or each.compiler != compiler():
            continue
        found = replace(candidates(each.problem), gpu=DEFAULT_TARGET)
        assert found.signature == each.signature
        plan = plan_on(DEFAULT_TARGET, found.problem, each.best.config)
        assert isinstance(plan, KernelPlan) or each.best.config == GEMM
        sources = [launch.source for launch in plan.kernels] if isinstance(plan, KernelPlan) else []
        if cubins_digest(sources, DEFAULT_TARGET.arch) != each.best.code:
            other.append(f"{each.problem}: {each.best.config}")
    assert not other, "\n".join(other)
