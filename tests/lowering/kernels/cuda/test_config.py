"""The schema of configs: every family's print and parse back, and errors name what is allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import pytest
from conv_lines import NHWC
from cuda_contractions import contraction_of_line, contractions_of
from hypothesis import given
from hypothesis import strategies as st

from convir.analysis.refusal import Refusal
from convir.cli.jobs.bench_problems import problems_of
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.kernels.cuda.config import (
    ROLES,
    Config,
    Key,
    OneOf,
    Range,
    Roles,
    Spells,
    WithRoles,
)
from convir.lowering.kernels.cuda.family import Family
from convir.lowering.kernels.cuda.tile_schedule.partition import Partition
from convir.lowering.kernels.registry import FAMILIES, family_of
from convir.lowering.kernels.target import DEFAULT_TARGET, target_of
from convir.lowering.selection.records.read import read_records, shipped_file
from convir.lowering.selection.records.record import machine_of

SUITES = Path(__file__).parents[4] / "benchmarks" / "suites"
CONFIGS = [cast("Family[Config]", each).config for each in FAMILIES if isinstance(each, Family)]
PARTITIONS = [
    Partition.parse(text)
    for text in (
        "data-parallel",
        "split-k:3:linear",
        "split-k:8:reduce-scatter",
        "stream-k:tree",
        "stream-k:tree:blocks",
    )
]


@dataclass(frozen=True)
class Example(WithRoles, family="example", sizes=2):
    """One field of each kind."""

    m: Annotated[int, OneOf(64, 128)]
    n: Annotated[int, Range(8, 256, multiple=8)]
    stages: Annotated[int, Range(2)]
    math: Literal["mma", "wgmma"]
    store: Literal["bulk", "direct"]
    store_channels: Annotated[int, Key("store")]
    roles: Annotated[tuple[int, int], Roles(*ROLES)]
    over: Annotated[tuple[int, int], Key("warps")]
    partition: Partition
    is_mma: Annotated[bool, Spells("warps", "threads")] = True
    split: int = 1
    copies: Annotated[str, OneOf("a", "ab")] = ""


TEXT = (
    "example 64x32 stages=2 math=mma store=bulk:16 roles=4:8 warps=2x4 partition=split-k:3:tree"
    " split=3 copies=ab"
)


def test_a_config_is_its_text() -> None:
    partition = Partition("split-k", 3, "tree")
    config = Example(64, 32, 2, "mma", "bulk", 16, (4, 8), (2, 4), partition, True, 3, "ab")
    assert str(config) == TEXT
    assert Example.parse(TEXT) == config


def test_keys_may_come_in_any_order_and_defaults_may_be_left_out() -> None:
    family, sizes, *words = TEXT.replace(" split=3 copies=ab", "").split(" ")
    parsed = Example.parse(" ".join((family, sizes, *reversed(words))))
    assert str(parsed) == " ".join((family, sizes, *words))
    assert (parsed.split, parsed.copies) == (1, "")


def test_a_flag_is_the_key_of_another_field() -> None:
    parsed = Example.parse(TEXT.replace("warps=", "threads="))
    assert (parsed.is_mma, parsed.over) == (False, (2, 4))
    assert " threads=2x4 " in str(parsed)


USAGE = (
    "it is written example MxN stages=… math=… store=…:… roles=… warps=… partition=… [split=…]"
    " [copies=…]"
)


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [
        ("stages=2", "stages=1", "stages=1: at least 2"),
        ("stages=2", "stages=many", "stages=many: at least 2"),
        ("stages=2", "stages=-2", "stages=-2: at least 2"),
        ("64x32", "96x32", "m=96: one of 64, 128"),
        ("64x32", "64x36", "n=36: multiples of 8, 8 to 256"),
        ("64x32", "64x264", "n=264: multiples of 8, 8 to 256"),
        ("math=mma", "math=fma", "math=fma: one of mma, wgmma"),
        ("bulk:16", "slow:16", "store=slow: one of bulk, direct"),
        ("bulk:16", "bulk:0", "store_channels=0: at least 1"),
        ("4:8", "3:5", "roles=3:5: one of 0:4, 0:8, 4:4, 4:8, 8:8"),
        ("4:8", "4", "roles=4: one of 0:4, 0:8, 4:4, 4:8, 8:8"),
        ("2x4", "2x0", "warps=2x0: AxB, each at least 1"),
        ("2x4", "2", "warps=2: AxB, each at least 1"),
        ("split-k:3:tree", "most", "'most' is not a partition"),
        ("copies=ab", "copies=c", "copies=c: one of a, ab"),
        ("stages=", "stage=", f"{USAGE}, without 'stage'; did you mean 'stages'?"),
        ("warps=", "thread=", f"{USAGE}, without 'thread'; did you mean 'threads'?"),
        ("copies=ab", "color=red", f"{USAGE}, without 'color'"),
        ("copies=ab", "threads=2x4", "it has warps or threads, not both"),
        (" stages=2", "", f"{USAGE}, and lacks stages"),
        (" 64x32", "", f"{USAGE}, and lacks its sizes"),
        ("64x32", "64x32x8", f"{USAGE}, not '64x32x8'"),
        ("bulk:16", "bulk", f"{USAGE}, not 'bulk'"),
        ("stages=2", "stages=2 stages=3", f"{USAGE}, not 'stages=3' here"),
        ("stages=2", "stages=2 64x32", f"{USAGE}, not '64x32' here"),
        ("example", "other", "is not a config of example"),
    ],
)
def test_errors_name_the_field_the_value_and_what_is_allowed(
    changed: str, to: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Example.parse(TEXT.replace(changed, to, 1))


def test_a_config_that_was_not_parsed_is_refused_likewise() -> None:
    config = Example(64, 36, 2, "mma", "bulk", 16, (4, 8), (2, 4), Partition())
    assert config.refusal() == Refusal("n=36: multiples of 8, 8 to 256")


def values(hint: Any) -> st.SearchStrategy[Any]:
    """What a field may be."""
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    rule = next((mark for mark in marks if isinstance(mark, Range | OneOf)), Range())
    if kind is bool:
        return st.booleans()
    if kind is Partition:
        return st.sampled_from(PARTITIONS)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if isinstance(rule, OneOf):
        return st.sampled_from(rule.values)
    most = rule.most or 512
    numbers = st.integers(-(-rule.least // rule.multiple), most // rule.multiple)
    scaled = numbers.map(lambda number: number * rule.multiple)
    return st.tuples(scaled, scaled) if get_origin(kind) is tuple else scaled


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Any config of any family."""
    kind = draw(st.sampled_from([Example, *CONFIGS]))
    hints = get_type_hints(kind, include_extras=True)
    return kind(**{field.name: draw(values(hints[field.name])) for field in fields(kind)})


REFUSED = r"written|config|at least|one of|partition|multiples|\d to \d"
"""What a message says: the config as a whole, or what a field may be."""


@given(configs())
def test_every_config_prints_and_parses(config: Config) -> None:
    assert type(config).parse(str(config)) == config


@given(configs(), st.data())
def test_other_texts_are_refused(config: Config, data: st.DataObject) -> None:
    text = str(config)
    words = text.split(" ")
    optional = ("split=", "splits=", "products=", "c")
    dropped = data.draw(st.sampled_from([w for w in words[1:] if not w.startswith(optional)]))
    others = {
        words[0],
        f"other-{text}",
        f"{text} more=1",
        f"{text} {words[-1]}",
        " ".join(word for word in words if word != dropped),
        re.sub(r"=[^ ]*$", "=", text),
        re.sub(r"=[^ ]*$", "=mail", text),
    }
    for other in others:
        with pytest.raises(ValueError, match=REFUSED):
            type(config).parse(other)


def test_what_records_hold_is_what_is_printed() -> None:
    texts = {
        measured.config
        for file in shipped_file(machine_of(DEFAULT_TARGET)).parent.glob("*.jsonl")
        for record in read_records(file)
        for measured in record.measurements
    }
    for text in texts:
        family = family_of(text)
        assert family is None or str(family.parse(text)) == text


@pytest.mark.parametrize("suite", sorted(SUITES.glob("*.txt")), ids=lambda path: path.stem)
def test_candidates_print_and_parse(suite: Path) -> None:
    lines = [line for line in map(strip_comment, suite.read_text().splitlines()) if line.strip()]
    few = lines[:: max(1, len(lines) // 3)]
    for problem in problems_of([parse_line(line) for line in few]):
        for found in contractions_of(problem):
            for family in FAMILIES:
                configs = family.candidates(found, DEFAULT_TARGET)
                for config in () if isinstance(configs, Refusal) else configs:
                    assert family.parse(str(config)) == config


SMALL = target_of("sm_90a", multiprocessors=132, shared_bytes=8 << 10)


@pytest.mark.parametrize(
    "line",
    [
        "convfp16 -n 8 -c 3 -H 64 -W 64 -k 64 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1",
        "convfp16 -n 8 -c 64 -H 64 -W 64 -k 3 -y 3 -x 3 -p 1 -q 1 -F 1",
        "convfp16 -n 8 -c 256 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -g 32 -F 1",
        "convfp16 -n 8 -c 256 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -g 32 -F 4",
        "convfp16 -n 8 -c 64 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1 -F 1",
        "convfp16 -n 8 -c 64 -H 28 -W 28 -k 128 -y 3 -x 3 -p 1 -q 1 -F 4",
        "convfp16 -n 8 -c 64 -H 28 -W 28 -k 36 -y 3 -x 3 -p 1 -q 1 -F 4",
    ],
)
def test_shared_memory_is_the_targets(line: str) -> None:
    problem = contraction_of_line(f"{line} {NHWC}")
    seen = 0
    for family in FAMILIES:
        found = family.candidates(problem, DEFAULT_TARGET)
        for config in () if isinstance(found, Refusal) else found[:3]:
            assert family.refusal(problem, config, DEFAULT_TARGET) is None
            refused = family.refusal(problem, config, SMALL)
            assert refused is not None
            assert re.search(r"it needs \d+ bytes of shared memory of", refused.reason)
            seen += 1
    assert seen
