"""The scripts that hold predictions against what was measured run; no time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RECORDS = BENCHMARKS / "results" / "candidates" / "field-h200.jsonl"


def test_predictions_are_held_against_records(tmp_path: Path) -> None:
    lines = RECORDS.read_text(encoding="utf-8").splitlines()[::90]
    records, report = tmp_path / "few.jsonl", tmp_path / "report.json"
    records.write_text("\n".join(lines) + "\n", encoding="utf-8")
    script = str(BENCHMARKS / "predictions.py")
    command = [sys.executable, script, str(records), "--json", str(report)]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    found = json.loads(report.read_text(encoding="utf-8"))
    (file,) = found["files"].values()
    assert file["lines"] == len(lines)
    assert all(row["configs"] and row["median"] >= 0 for row in found["families"].values())
    assert 0 <= file["predicted"]["within 5 %"] <= file["predicted"]["within 15 %"] <= 1
    assert all(name in done.stdout for name in found["families"])


def test_what_choices_cost_by_times_that_were_measured(tmp_path: Path) -> None:
    measured = json.loads((BENCHMARKS / "results" / "epilogues-h200.json").read_text("utf-8"))
    few = {**measured, "rows": measured["rows"][::8]}
    times = tmp_path / "few.json"
    times.write_text(json.dumps(few), encoding="utf-8")
    command = [sys.executable, str(BENCHMARKS / "epilogues.py"), "--times", str(times)]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == len(few["rows"]) + 1
    assert "a choice costs" in done.stdout
