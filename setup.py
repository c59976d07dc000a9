"""Builds Longhall: the hot rooms compiled by mypyc as one group, or the very same files as plain Python.

LONGHALL_COMPILE=auto   compile where a C compiler and Python.h are there; should that fail, say why and go on (default)
LONGHALL_COMPILE=1      compile or fail
LONGHALL_COMPILE=0      plain Python

It is all or nothing: a build that failed half way leaves no compiled module behind, because the modules of one group
cannot be imported without each other. An editable install is always plain, since edits to a compiled file would be
ignored without a word. What was compiled is kept under build/hot, by a hash of everything that went into it.

mypyc writes one C file a module, and TRANSLATION_UNITS files include them in groups of about the same size. Every core
compiles one of these at a time. Fewer units leave cores idle at the end; with more, the headers are parsed more often.
Modules of one unit may inline each other's functions (DIRECT_CALLS); others call each other.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"

# The hot rooms, as patterns below src/longhall. A pattern may match nothing yet. `__init__.py` is never compiled.
HOT_ROOMS = (
    "records/*.py",
    "log/*.py",
    "shards/*.py",
    "topics/producers.py",
    "topics/quota.py",
    "queues/cursor.py",
    "queues/wheel.py",
    "queues/staging.py",
    "queues/slices.py",
    "queues/envelope.py",
    "queues/deduplication.py",
    "queues/delivery_selection.py",
    "queues/groups.py",
    "queues/holds.py",
    "queues/hours.py",
    "queues/lanes.py",
    "queues/leases.py",
    "queues/marks.py",
    "queues/open_sends.py",
    "queues/outcomes.py",
    "queues/queue.py",
    "queues/runs.py",
    "queues/state.py",
    "queues/uncommitted.py",
    "queues/processing_times.py",
    "queues/receipts.py",
    "queues/chunked_messages.py",
    "exchanges/exchange.py",
    "exchanges/header_match.py",
    "exchanges/properties.py",
    "exchanges/topic_trie.py",
    "exchanges/topology.py",
    "broker/catalogue.py",
    "broker/commits.py",
    "broker/fetch.py",
    "broker/hall.py",
    "broker/partition.py",
    "broker/pending.py",
    "broker/queue_catalogue.py",
    "broker/produced.py",
    "broker/queues/dead_letters/dead_lettering.py",
    "broker/queues/delays/delay_promotion.py",
    "broker/queues/service.py",
    "broker/queues/consumers/queue_consumers.py",
    "broker/queues/sending/batch_send.py",
    "broker/queues/sending/publish.py",
    "broker/queues/sending/rules.py",
    "broker/queues/audit/audit_log.py",
    "broker/queues/delivery/receive.py",
    "broker/queues/running_queue.py",
    "broker/queues/delivery/settle.py",
    "broker/queues/delivery/waiters.py",
    "broker/queues/delivery/window.py",
    "broker/queues/write.py",
    "broker/send.py",
    "broker/hall_time.py",
    "broker/traffic.py",
    "broker/usage/usage_meter.py",
    "broker/usage/usage_totals.py",
    "broker/waiting.py",
    "directory/directory.py",
    "front/admission.py",
    "front/authenticator.py",
    "front/calls.py",
    "front/fair_calls.py",
    "front/fairness.py",
    "front/http.py",
    "front/http_bodies.py",
    "front/http_request.py",
    "front/identity.py",
    "front/sealing/gate.py",
    "front/usage.py",
    "meters.py",
    "service/local.py",
    "service/router.py",
    "doors/sqs/addresses.py",
    "doors/sqs/answers.py",
    "doors/sqs/batches.py",
    "doors/sqs/door.py",
    "doors/sqs/extensions.py",
    "doors/sqs/receiving.py",
    "doors/sqs/sending.py",
    "doors/sqs/server.py",
    "doors/sqs/settling.py",
    "doors/sqs/text.py",
    "doors/sqs/handlers/change_message_visibility.py",
    "doors/sqs/handlers/change_message_visibility_batch.py",
    "doors/sqs/handlers/delete_message.py",
    "doors/sqs/handlers/delete_message_batch.py",
    "doors/sqs/handlers/receive_message.py",
    "doors/sqs/handlers/send_message.py",
    "doors/sqs/handlers/send_message_batch.py",
    "doors/sqs/wire/json.py",
    "doors/amqp/acknowledgements.py",
    "doors/amqp/channel.py",
    "doors/amqp/deliveries.py",
    "doors/amqp/intake.py",
    "doors/amqp/publications.py",
    "doors/amqp/publish_batches.py",
    "doors/amqp/publisher.py",
    "doors/amqp/pushes.py",
    "doors/amqp/unacknowledged.py",
    "doors/amqp/wire/*.py",
    "doors/stomp/wire/*.py",
    "doors/kafka/connection.py",
    "doors/kafka/door.py",
    "doors/kafka/fetch_sessions.py",
    "doors/kafka/server.py",
    "doors/kafka/handlers/fetch.py",
    "doors/kafka/handlers/produce.py",
    "doors/kafka/wire/*.py",
    "world/real/clock.py",
    "world/real/entropy.py",
    "world/real/file.py",
)

# Files within those rooms that are left alone, beside the ones that the next line finds.
COLD_FILES: frozenset[str] = frozenset({"apis.py", "error_codes.py", "malformed.py"})

# msgspec reads annotations when a structure is defined, and compiling erases them: such files stay plain.
DEFINES_STRUCTURES = re.compile(rb"^class \w+\([^)]*\bStruct\b", re.MULTILINE)

TRANSLATION_UNITS = 8

OPTIMISATION_LEVEL = os.environ.get("LONGHALL_OPTIMISATION", "3")

# Functions of the group call each other directly, and may be inlined within a unit. By default another library could
# replace each of them by a symbol of the same name, so that every call goes through a table.
DIRECT_CALLS = ("-fvisibility=hidden", "-fno-semantic-interposition", "-fno-plt")


def hot_files() -> list[Path]:
    """The files that mypyc compiles, sorted."""
    found = {path for pattern in HOT_ROOMS for path in (SOURCE / "longhall").glob(pattern)}
    return sorted(path for path in found if path.name not in {"__init__.py", *COLD_FILES} and not _is_cold(path))


def _is_cold(path: Path) -> bool:
    return DEFINES_STRUCTURES.search(path.read_bytes()) is not None


def hot_modules() -> list[str]:
    """The same as module names."""
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in hot_files()]


def obstacle() -> str | None:
    """Why this machine cannot compile, in words that say what to install; None if it can."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler}); on Debian: apt-get install gcc libc6-dev"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "no Python.h; on Debian: apt-get install python3-dev"
    return None


def _imported_files(path: Path) -> set[Path]:
    """The files of Longhall that one file imports, as written; types flow along these edges into the compiled code."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    files: set[Path] = set()
    for name in names:
        if name.split(".")[0] == "longhall":
            place = SOURCE.joinpath(*name.split("."))
            files.update(file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists())
    return files


def _key(files: list[Path]) -> str:
    """A hash of what the compiled modules depend on: tools, options, their own text and all that they import."""
    from mypy.version import __version__ as mypy_version

    waiting, seen = list(files), set(files)
    while waiting:
        new = _imported_files(waiting.pop()) - seen
        seen |= new
        waiting.extend(new)
    digest = hashlib.sha256()
    digest.update(
        f"{mypy_version} {sys.implementation.cache_tag} {OPTIMISATION_LEVEL} {DIRECT_CALLS} {len(files)}\n".encode()
    )
    for path in [ROOT / "setup.py", *sorted(seen)]:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {path in files} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:24]


def join_sources(sources: list[Path], count: int, target: Path) -> list[Path]:
    """Write `count` C files that include all sources, in order and each about as large as the others."""
    share = sum(path.stat().st_size for path in sources) / count
    groups: list[list[Path]] = [[] for _ in range(count)]
    before = 0
    for path in sources:
        groups[min(int(before / share), count - 1)].append(path)
        before += path.stat().st_size
    units = []
    for number, group in enumerate(group for group in groups if group):
        unit = target / f"unit_{number}.c"
        unit.write_text("".join(f'#include "{path.resolve()}"\n' for path in group))
        units.append(unit)
    return units


def _run_jobs(jobs: list[Callable[[], object]]) -> None:
    """Run the jobs on all cores, those at the front first."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = [pool.submit(job) for job in jobs]
        try:
            for job in as_completed(running):
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _say(text: str) -> None:
    print(f"longhall: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Run setuptools, with compiled modules if that was asked for and is possible."""
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext

    mode = os.environ.get("LONGHALL_COMPILE", "auto")
    if mode not in ("auto", "0", "1"):
        raise SystemExit(f"LONGHALL_COMPILE is {mode!r}; it is auto, 1 or 0")
    wanted = mode != "0" and any(word in sys.argv for word in ("bdist_wheel", "build", "build_ext"))
    files = hot_files() if wanted else []
    if files and (reason := obstacle()) is not None:
        if mode == "1":
            raise SystemExit(f"longhall: cannot compile: {reason}")
        _say(f"not compiled: {reason}")
        files = []
    if not files:
        setup()
        return
    kept = ROOT / "build" / "hot" / _key(files)

    class BuildHotRooms(build_ext):  # type: ignore[misc]
        """Compiles into a directory of its own and takes it over only when everything is there."""

        build_lib: str

        def run(self) -> None:
            if not kept.exists():
                fresh = kept.with_suffix(".fresh")
                shutil.rmtree(fresh, ignore_errors=True)
                target, self.build_lib = self.build_lib, str(fresh)
                try:
                    super().run()
                except Exception as failure:
                    shutil.rmtree(fresh, ignore_errors=True)
                    if mode == "1":
                        raise
                    _say(f"not compiled: the C compiler failed, {str(failure)[-40:]}")
                    return
                finally:
                    self.build_lib = target
                fresh.rename(kept)
            shutil.copytree(kept, self.build_lib, dirs_exist_ok=True)

        def build_extensions(self) -> None:
            """Compile the units of the group and the small modules that load it at once, then link the group."""
            group = [extension for extension in self.extensions if len(extension.sources) > 1]
            small = [extension for extension in self.extensions if len(extension.sources) == 1]
            build_module = super().build_extension
            jobs: list[Callable[[], object]] = []
            for extension in group:
                sources = sorted(map(Path, extension.sources), key=lambda path: path.name.startswith("__native"))
                units = join_sources(sources, TRANSLATION_UNITS, Path(self.build_temp).resolve().parent / "mypyc")
                extension.sources = []
                jobs += [functools.partial(self._compile_unit, extension, unit) for unit in units]
            _run_jobs([*jobs, *(functools.partial(build_module, extension) for extension in small)])
            for extension in group:
                extension.extra_objects.sort()
                build_module(extension)

        def _compile_unit(self, extension: Any, unit: Path) -> None:
            extension.extra_objects += self.compiler.compile(
                [str(unit)],
                output_dir=self.build_temp,
                include_dirs=extension.include_dirs,
                extra_postargs=[*extension.extra_compile_args, *DIRECT_CALLS],
                depends=extension.depends,
            )
            _say(f"compiled {len(extension.extra_objects)} of {TRANSLATION_UNITS} units")

    extensions = [Extension("longhall__mypyc", sources=[])]  # Stands for what is kept already.
    if not kept.exists():
        from mypyc.build import mypycify

        _say(f"checking the types of {len(files)} hot modules and writing them as C")
        try:
            extensions = mypycify(
                [str(path.relative_to(ROOT)) for path in files],
                opt_level=OPTIMISATION_LEVEL,
                debug_level="0",
                group_name="longhall",
                multi_file=True,
                target_dir=str(ROOT / "build" / "mypyc"),
            )
        except SystemExit:  # mypyc has printed the type errors.
            if mode == "1":
                raise
            _say("not compiled: the hot rooms have errors, see above")
            extensions = []
    setup(ext_modules=extensions, cmdclass={"build_ext": BuildHotRooms})


if __name__ == "__main__":
    main()
