"""One tuning record: every config of one kernel on one machine, each with its times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from convir.lowering.kernels.cuda.old_spelling import read_config

if TYPE_CHECKING:
    from convir.lowering.kernels.target import Target

TIE = 0.02
"""A config within this share of the fastest one's time is as fast: medians repeat no better."""

Key: TypeAlias = "tuple[Machine, str]"


@dataclass(frozen=True)
class Machine:
    """What times belong to: machines that are equal share records."""

    name: str
    """A GPU's or a processor's, as its driver says it."""
    units: int
    """Multiprocessors, or threads."""

    @property
    def slug(self) -> str:
        """The machine in the name of a file, e.g. `nvidia-gpu-132`."""
        letters = "".join(c if c.isalnum() else " " for c in self.name.lower())
        return "-".join([*letters.split(), str(self.units)])


def machine_of(gpu: Target) -> Machine:
    """A GPU as what times belong to."""
    return Machine(gpu.name, gpu.multiprocessors)


@dataclass(frozen=True)
class Measurement:
    """One config of a kernel; either `us` or `failure` is set."""

    config: str
    """The canonical string."""
    code: str
    """A digest of the compiled code that was measured: of what is executed of its cubins, or of its
    LLVM IR on the host."""
    us: tuple[float, float, float] | None
    """Median, 20th and 80th percentile in µs."""
    failure: str | None = None
    """Why there are no times: it could not be run, or computed something else."""


@dataclass(frozen=True)
class Record:
    """All configs that were measured of one kernel on one machine."""

    machine: Machine
    signature: str
    """What the kernel computes; see `lowering.contraction.signature`."""
    problem: str
    """The line that it was tuned for, for readers."""
    measurements: tuple[Measurement, ...]
    """By predicted time: the first one is what selection chooses without a record."""
    compiler: str | None = None
    """What compiled the code, e.g. `NVRTC 13.0.88`: digests of another compiler's code are not
    compared. None if it is not known; then none are."""

    @property
    def key(self) -> Key:
        """What there is one record of."""
        return self.machine, self.signature

    @property
    def best(self) -> Measurement | None:
        """The config of the least median, or the predicted one where its median is within `TIE` of
        that; None if none ran."""
        ran = [(m.us, m) for m in self.measurements if m.us is not None]
        if not ran:
            return None
        (fastest, _, _), best = min(ran, key=lambda each: each[0][0])
        rule = self.measurements[0]
        return rule if rule.us is not None and rule.us[0] <= fastest * (1 + TIE) else best

    def line(self) -> str:
        """The record as a line of JSON, which `parse` reads."""
        measured: list[dict[str, Any]] = []
        for each in self.measurements:
            entry: dict[str, Any] = {"config": each.config, "code": each.code}
            if each.us is not None:
                entry["us"] = [round(us, 2) for us in each.us]
            else:
                entry["failure"] = each.failure
            measured.append(entry)
        return json.dumps(
            {
                "machine": self.machine.name,
                "units": self.machine.units,
                "problem": self.problem,
                "signature": self.signature,
                **({} if self.compiler is None else {"compiler": self.compiler}),
                "measured": measured,
            },
            ensure_ascii=False,
        )

    @staticmethod
    def parse(line: str) -> Record:
        """The record that prints as `line`.

        Raises:
            ValueError: it is not a record.
        """
        try:
            entry = json.loads(line)
            return Record(
                Machine(str(entry["machine"]), int(entry["units"])),
                str(entry["signature"]),
                str(entry["problem"]),
                tuple(_measurement(each) for each in entry["measured"]),
                str(entry["compiler"]) if "compiler" in entry else None,
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no tuning record: {error!r}") from error


def _measurement(entry: dict[str, Any]) -> Measurement:
    us = None
    if "us" in entry:
        median, p20, p80 = map(float, entry["us"])
        us = (median, p20, p80)
    failure = None if us is not None else str(entry["failure"])
    return Measurement(read_config(str(entry["config"])), str(entry["code"]), us, failure)
