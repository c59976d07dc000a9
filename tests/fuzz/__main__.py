"""Runs the fuzz targets: every `fuzz_<name>.py` here has one function `TestOneInput(data)` that may raise nothing.

It may have `SEEDS` as well, inputs to begin with.

Each target runs in a process of its own on the plain sources, where the fuzzer sees which lines an input reaches. The
inputs it found worth keeping are then given to the installed build, which may be compiled: both must stand them. They
are kept under build/fuzz, so that the next run begins where this one ended. An input that breaks a target is kept as
well and printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEPT = ROOT / "build" / "fuzz"
INPUT_BYTES_MAX = 16 * 1024
MEMORY_MB_MAX = 1024  # A length that nobody checked shows as an allocation that a small input cannot deserve.
SECONDS_FOR_ONE_INPUT_MAX = 10


def main() -> int:
    names = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))
    parser = argparse.ArgumentParser(prog="./dev fuzz", description="Feed malformed bytes to the decoders.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"which ones: {', '.join(names)} (default: all)")
    parser.add_argument("--seconds", type=int, default=60, help="how long for each target (default: 60)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="give this one input to one target and stop")
    parser.add_argument("--step", choices=["explore", "repeat"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    targets = arguments.targets or names
    if unknown := sorted(set(targets) - set(names)):
        parser.error(f"there is no target {', '.join(unknown)}; there are {', '.join(names)}")
    if arguments.step == "explore":
        _explore(targets[0], arguments.seconds)
    if arguments.step == "repeat" or arguments.replay is not None:
        files = [arguments.replay] if arguments.replay is not None else _kept_inputs(targets[0])
        return _repeat(targets[0], files)
    failed = [target for target in targets if not _fuzz(target, arguments.seconds)]
    print(f"fuzz: {len(targets) - len(failed)} of {len(targets)} targets stood" + (f", not {failed}" if failed else ""))
    return 1 if failed else 0


def _fuzz(target: str, seconds: int) -> bool:
    (KEPT / target).mkdir(parents=True, exist_ok=True)
    print(f"fuzz: {target} for {seconds} s on the plain sources", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", target, "--seconds", str(seconds), "--step"]
    plain = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    if subprocess.run([*command, "explore"], cwd=ROOT, env=plain, check=False).returncode != 0:
        for broken in sorted((KEPT / f"broken-{target}").glob("*")):
            print(f"fuzz: again with: ./dev fuzz {target} --replay {broken.relative_to(ROOT)}")
        return False
    print(f"fuzz: {target}: {len(_kept_inputs(target))} inputs on the installed build", flush=True)
    return subprocess.run([*command, "repeat"], cwd=ROOT, check=False).returncode == 0


def _kept_inputs(target: str) -> list[Path]:
    return sorted((KEPT / target).iterdir())


def _repeat(target: str, files: list[Path]) -> int:
    test_one_input = importlib.import_module(f"tests.fuzz.fuzz_{target}").TestOneInput
    for file in files:
        try:
            test_one_input(file.read_bytes())
        except BaseException:
            print(f"fuzz: {target} broke on {file}", flush=True)
            raise
    return 0


def _explore(target: str, seconds: int) -> None:
    """Hand this process to the fuzzer, which ends it."""
    import atheris

    with atheris.instrument_imports(include=["longhall"]):
        module = importlib.import_module(f"tests.fuzz.fuzz_{target}")
    broken = KEPT / f"broken-{target}"
    broken.mkdir(parents=True, exist_ok=True)
    (KEPT / target).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(getattr(module, "SEEDS", ())):
        (KEPT / target / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={SECONDS_FOR_ONE_INPUT_MAX}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-artifact_prefix={broken}/",
        "-verbosity=0",
        "-print_final_stats=1",
        str(KEPT / target),
    ]
    atheris.Setup([sys.argv[0], *options], module.TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
