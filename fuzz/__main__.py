"""`python -m fuzz TARGET ... [--runs N] [--seconds S]`, or `--all`: each target in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = (
    "csv tsv csv.gz parquet h5ad hdf5 columns png jpeg tiff svs geojson mask.png mask.tif mask.npy archive model api"
)
STUCK, STARTING = 60, 120
"""Seconds for one input, and until the first comes, after which a child is ended."""
FOUND = Path(tempfile.gettempdir()) / "clearfold-fuzz"


def main(arguments: list[str] | None = None) -> int:
    """Run targets one after the other; the exit status says whether anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one or more of: {NAMES}")
    parser.add_argument("--all", action="store_true", help="every target")
    parser.add_argument("--runs", type=int, default=10_000, help="inputs for each target (10,000)")
    parser.add_argument("--seconds", type=int, default=0, help="stop a target after so long (0: never)")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices (1)")
    parser.add_argument("--output", type=Path, default=FOUND, help="where inputs that broke something go")
    options = parser.parse_args(arguments)
    names = NAMES.split() if options.all else options.targets
    unknown = sorted(set(names) - set(NAMES.split()))
    if unknown or not names:
        parser.error(f"{', '.join(unknown) or 'nothing'} came; targets are {NAMES}")
    options.output.mkdir(parents=True, exist_ok=True)
    told = [fuzz(name, options.runs, options.seconds, options.seed, options.output) for name in names]
    return 1 if any(one["found"] for one in told) else 0


def fuzz(name: str, runs: int, seconds: int, seed: int, output: Path) -> dict[str, object]:
    """Feed a target until it had enough; a child that died (a crash below Python) is started again."""
    begun, done, slowest, largest, found = time.monotonic(), 0, 0.0, 0, {}
    while done < runs and not (seconds and time.monotonic() - begun > seconds):
        left = max(1, int(seconds - (time.monotonic() - begun))) if seconds else 0
        told = _child(name, runs - done, left, seed, output)
        done += max(1, told["inputs"])
        slowest, largest = max(slowest, told["slowest"]), max(largest, told["megabytes"])
        found |= told["found"]
        seed += 1
        if len(found) > 50:
            break
    told = {"target": name, "inputs": done, "seconds": round(time.monotonic() - begun), "slowest": slowest}
    told |= {"megabytes": largest, "found": found}
    print(json.dumps(told), flush=True)
    return told


def _child(name: str, runs: int, seconds: int, seed: int, output: Path) -> dict:
    state = output / f"{name}.state.json"
    state.unlink(missing_ok=True)
    command = [sys.executable, "-m", "fuzz.child", name, str(state), str(runs), str(seconds), str(seed), str(output)]
    with (output / f"{name}.stderr").open("w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"MPLBACKEND": "Agg"})
        _watch(child, state.with_suffix(".input"))
    said = (output / f"{name}.stderr").read_text(errors="replace")
    told = json.loads(state.read_text()) if state.exists() else {"inputs": 0, "slowest": 0, "megabytes": 0, "found": {}}
    if not told.get("ended"):
        signal = re.search(r"(deadly signal|out-of-memory|SEGV|ABRT)", said)
        kept = output / f"{name}-ended-{seed}"
        kept.write_bytes(state.with_suffix(".input").read_bytes())
        told["found"][f"the process ended: {signal[1] if signal else 'status'} {child.returncode}"] = str(kept)
    return told


def _watch(child: subprocess.Popen[bytes], latest: Path) -> None:
    """Wait for the end; a child that is busy with one input for too long is ended."""
    begun = time.time()
    while True:
        try:
            child.wait(timeout=2)
            return
        except subprocess.TimeoutExpired:
            last = latest.stat().st_mtime if latest.exists() else 0.0
            if time.time() - max(begun + STARTING, last) > STUCK:
                child.kill()


if __name__ == "__main__":
    sys.exit(main())
