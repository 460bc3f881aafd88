"""Networks through `torch.compile(backend="convir")`, beside eager mode and Inductor, in turns.

    python benchmarks/torch_graphs.py [--device cuda] [--dtypes float16] [--batches 1,32]
        [--threads 1,2] [--peers reduce-overhead,max-autotune] [--limit SECONDS]
        [--first-limit SECONDS] [--seconds SECONDS] [--ahead PROCESSES] [--autotune]
        [--json FILE] [NAME…]

Inductor freezes parameters, cuDNN is autotuned, TF32 is off. A row has milliseconds of a call of
each (the median, in turns on one input), seconds of the first call (the caches of Inductor and
convir on disk are empty; with `--ahead` that many processes fill them before the first row, and
`warm_first_s` stands for `first_s`), the largest error against eager mode in f32 over the largest
value, and the share of calls on convir. On a GPU calls lie between events, and L2 is overwritten
before each; `gpu_ms` is the same where the GPU is busy until a call is enqueued, as in a loop that
waits for no result, and `host_ms` what a call costs the host while the GPU is idle. With
`--autotune` convir measures its kernels in its first call, which nothing fills ahead. A peer whose
first call takes longer than `--first-limit` is left out of its row; after `--limit` no further row
begins. The JSON file is written after each row.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib import import_module
from math import exp, inf, log
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import torch
from graph_models import NETWORKS, prepared

from convir.pytorch.graphs import reports
from convir.runtime.bench.host import HostBench
from convir.runtime.bench.timing import host_us, settled_us
from convir.runtime.cache.object_cache import FOLDER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from convir.pytorch.graphs import GraphReport

EAGER, OURS = "eager", "convir"
FEWEST = 5
"""Timed calls of one implementation."""
FLUSHED = 256 << 20
"""Bytes that are overwritten before a call on a GPU: more than its L2."""
BUSY_CYCLES = 4_000_000
"""Of a GPU, in which a call is enqueued."""


def compiled_with(peer: str, model: Any, *, autotune: bool = False) -> Any:
    """The model as a peer runs it; whether convir measures its kernels."""
    if peer == EAGER:
        return model
    if peer == OURS:
        return cast("Any", torch).compile(model, backend=OURS, options={"autotune": autotune})
    return cast("Any", torch).compile(model, mode=peer)


def timer(device: str, threads: int, busy_cycles: int = 0) -> Callable[[Callable[[], Any]], float]:
    """What times one call, in milliseconds; on several threads of a CPU once those of the
    implementation before have come to rest, on a GPU behind so many cycles of other work."""
    if device == "cpu":
        clock = settled_us if threads > 1 else host_us
        return lambda call: clock(call, 1) / 1e3
    cache = torch.empty(FLUSHED, dtype=torch.uint8, device=device)

    def on_gpu(call: Callable[[], Any]) -> float:
        cache.fill_(1)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if busy_cycles:
            cast("Any", torch.cuda)._sleep(busy_cycles)
        first.record()
        call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last)

    return on_gpu


class OutOfTimeError(BaseException):
    """A first call takes too long; nothing that a compiler catches."""


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Interrupt what takes longer.

    Raises:
        OutOfTimeError: it took longer.
    """

    def interrupt(*_: object) -> None:
        raise OutOfTimeError(f"its first call takes more than {seconds:g} s")

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def empty_caches() -> Generator[None]:
    """Convir's cache is an empty folder; Inductor's is off."""
    before = os.environ.get(FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            os.environ.pop(FOLDER_VARIABLE)
            if before is not None:
                os.environ[FOLDER_VARIABLE] = before


@dataclass(frozen=True)
class Case:
    """What a row is of."""

    name: str
    batch: int
    dtype: str
    threads: int
    device: str

    def __str__(self) -> str:
        on = f" {self.threads} threads" if self.device == "cpu" else ""
        return f"{self.name} {self.dtype} n{self.batch}{on}"


def configure(*, caches: bool) -> None:
    """PyTorch's settings of every run, with or without Inductor's caches."""
    warnings.filterwarnings("ignore")
    inductor: Any = import_module("torch._inductor.config")
    inductor.freezing, inductor.force_disable_caches = True, not caches
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False


def fill_caches(case: Case, peers: list[str]) -> None:
    """Call a network once through each compiler, for what they keep on disk."""
    configure(caches=True)
    torch.set_num_threads(case.threads)
    model, x = prepared(case.name, case.batch, case.device, getattr(torch, case.dtype))
    with torch.no_grad():
        for peer in peers:
            if peer != EAGER:
                torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
                compiled_with(peer, model)(x)


def fill_ahead(cases: Sequence[Case], peers: list[str], processes: int) -> None:
    """Fill the caches for all rows, several at once; a row that fails does so again later."""
    with ProcessPoolExecutor(processes, get_context("spawn"), max_tasks_per_child=1) as pool:
        for made in [pool.submit(fill_caches, case, peers) for case in cases]:
            if error := made.exception():
                print(f"ahead: {type(error).__name__}: {error}"[:200], file=sys.stderr)


def measured(
    case: Case,
    peers: list[str],
    seconds: float,
    first_seconds: float,
    *,
    filled: bool,
    autotune: bool,
) -> dict[str, Any]:
    """The row of one network, with caches that are filled or empty; whether convir measures its
    kernels."""
    first = "warm_first_s" if filled else "first_s"
    torch.set_num_threads(case.threads)
    exact_model, exact_x = prepared(case.name, case.batch, case.device, torch.float32)
    model, x = prepared(case.name, case.batch, case.device, getattr(torch, case.dtype))
    row: dict[str, Any] = asdict(case)
    calls: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        want = exact_model(exact_x).float()
        del exact_model
        for peer in peers:
            torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
            before = len(reports())
            try:
                with nullcontext() if filled else empty_caches(), at_most(first_seconds):
                    start = time.perf_counter()
                    function = compiled_with(peer, model, autotune=autotune)
                    got = function(x)
                    finish(case.device)
                    row[f"{peer}_{first}"] = round(time.perf_counter() - start, 2)
            except (Exception, OutOfTimeError) as error:
                row[f"{peer}_failure"] = f"{type(error).__name__}: {error}"[:200]
                continue
            row[f"{peer}_error"] = float((got.float() - want).abs().max() / want.abs().max())
            del got
            calls[peer] = lambda function=function: function(x)
            if peer == OURS:
                row |= on_convir(reports()[before:])
        for peer, taken in in_turns(calls, timer(case.device, case.threads), seconds).items():
            row[f"{peer}_ms"] = round(taken, 3)
        if case.device == "cuda":
            on_busy = timer(case.device, case.threads, BUSY_CYCLES)
            for suffix, clock in (("gpu_ms", on_busy), ("host_ms", host_time)):
                for peer, taken in in_turns(calls, clock, seconds / 4).items():
                    row[f"{peer}_{suffix}"] = round(taken, 3)
            row["gpu_ratio"] = ratio(row, peers, "gpu_ms")
    row["ratio"] = ratio(row, peers)
    return row


def on_convir(found: Sequence[GraphReport]) -> dict[str, Any]:
    """What reports say."""
    taken = sum(each.taken for each in found)
    return {
        "share": taken / max(1, taken + sum(each.left.total() for each in found)),
        "pieces": sum(each.pieces for each in found),
        "not_replayed": [each.not_replayed for each in found if each.not_replayed],
    }


def finish(device: str) -> None:
    """Wait for what was enqueued."""
    if device == "cuda":
        torch.cuda.synchronize()


def host_time(call: Callable[[], Any]) -> float:
    """What a call costs the host, in milliseconds, while the GPU is idle."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    taken = (time.perf_counter() - start) * 1e3
    torch.cuda.synchronize()
    return taken


def in_turns(
    calls: Mapping[str, Callable[[], Any]],
    timed: Callable[[Callable[[], Any]], float],
    seconds: float,
) -> dict[str, float]:
    """The median time of each call, in milliseconds.

    Args:
        calls: of each implementation.
        timed: gives the milliseconds of one call.
        seconds: for all calls of one implementation; at least 5 are timed.
    """
    for call in calls.values():
        for _ in range(3):
            timed(call)
    times: dict[str, list[float]] = {peer: [] for peer in calls}
    end = time.perf_counter() + seconds * len(calls)
    while calls and (time.perf_counter() < end or min(map(len, times.values())) < FEWEST):
        for peer, call in calls.items():
            times[peer].append(timed(call))
    return {peer: median(taken) for peer, taken in times.items()}


def ratio(row: Mapping[str, Any], peers: list[str], what: str = "ms") -> float | None:
    """Our time over that of the fastest other one."""
    others = [row[f"{peer}_{what}"] for peer in peers if peer != OURS and f"{peer}_{what}" in row]
    ours = row.get(f"{OURS}_{what}")
    return ours / min(others) if others and ours is not None else None


def said(row: Mapping[str, Any], peers: list[str]) -> str:
    """A row as a line."""
    times = ", ".join(f"{peer} {row.get(f'{peer}_ms', '-')}" for peer in peers)
    firsts = ", ".join(
        f"{row.get(f'{peer}_first_s', row.get(f'{peer}_warm_first_s', '-'))}" for peer in peers
    )
    found = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    if row.get("gpu_ratio"):
        found += f", GPU busy {row['gpu_ratio']:.2f}"
    wrong = row.get(f"{OURS}_error", row.get(f"{OURS}_failure", "-"))
    return f"{times} ms; ratio {found}; first calls {firsts} s; our error {wrong}"


def cases(options: argparse.Namespace) -> list[Case]:
    """All rows that are asked for."""
    on_gpu = options.device == "cuda"
    dtypes = options.dtypes or ("float16,bfloat16" if on_gpu else "float32,bfloat16")
    batches = options.batches or ("1,32" if on_gpu else "1")
    threads = options.threads or ("1" if on_gpu else "1,2")
    return [
        Case(name, int(batch), dtype, int(count), options.device)
        for count in threads.split(",")
        for dtype in dtypes.split(",")
        for batch in batches.split(",")
        for name in options.names
    ]


def main() -> int:
    """Measure, print a table, and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtypes", help="float32,bfloat16; on a GPU float16,bfloat16")
    parser.add_argument("--batches", help="1; on a GPU 1,32")
    parser.add_argument("--threads", help="1,2; on a GPU 1")
    parser.add_argument("--peers", help="default; on a GPU reduce-overhead,max-autotune")
    parser.add_argument("--limit", type=float, default=inf, help="seconds of all rows")
    parser.add_argument("--first-limit", type=float, default=120, help="seconds of a first call")
    parser.add_argument("--seconds", type=float, default=1, help="of timed calls of each")
    parser.add_argument("--ahead", type=int, metavar="PROCESSES", help="fill the caches before")
    parser.add_argument("--autotune", action="store_true", help="convir measures its kernels")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NETWORKS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    configure(caches=bool(options.ahead))
    on_gpu = options.device == "cuda"
    given = options.peers or ("reduce-overhead,max-autotune" if on_gpu else "default")
    peers = [EAGER, *given.split(","), OURS]
    environment = {
        "torch": torch.__version__,
        "device": options.device,
        "gpu": torch.cuda.get_device_name() if on_gpu else None,
        "cpu": HostBench(1).describe()["cpu"],
        "command": " ".join(("python benchmarks/torch_graphs.py", *sys.argv[1:])),
    }
    rows: list[dict[str, Any]] = []
    asked = cases(options)
    end = time.perf_counter() + options.limit
    if options.ahead:
        filled = [peer for peer in peers if peer != OURS or not options.autotune]
        fill_ahead(asked, filled, options.ahead)
    for case in asked:
        if time.perf_counter() > end:
            print(f"no time is left for {case} and what follows")
            break
        row = measured(
            case,
            peers,
            options.seconds,
            options.first_limit,
            filled=bool(options.ahead),
            autotune=options.autotune,
        )
        rows.append(row)
        print(f"{case}: {said(row, peers)}", flush=True)
        if options.json:
            text = json.dumps({"environment": environment, "rows": rows}, indent=1)
            options.json.write_text(text + "\n")
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geomean of our time over the best other one: {mean:.3f}, most {max(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
