"""A Spark session that has `format("longhall")`, on one machine or on a cluster.

The module sets what Spark needs and does not check: the interpreter of its Python workers, the address that it binds,
Java, a compatible PySpark, and Longhall on remote executors. Whatever is missing is reported as one `PipelineError`.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from longhall.pipeline.refusals import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
PYSPARK: Final = ((4, 2), (5, 0))  # From the first one on that lets a Python source limit its batches.
INSTALL: Final = "pip install 'longhall[spark]'"
LOCAL: Final = "local[*]"

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Rows come from Python workers through sockets: on one machine these are quicker than TCP in steps of 64 KiB.
_LOCAL_SETTINGS: Final = {
    "spark.buffer.size": str(1024 * 1024),
    "spark.python.unix.domain.socket.enabled": "true",
}
_quiet_log: Path | None = None


def session(
    master: str | None = None,
    *,
    name: str = "longhall",
    settings: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> SparkSession:
    """The running session, or a new one, with the data source registered.

    `master` is Spark's ("local[*]", "spark://HOST:PORT"); on anything but a local one Longhall is shipped to the
    executors. `quiet` keeps what Java prints away from the terminal. Raises PipelineError.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is None:
        check_java()
        master = master or os.environ.get("LONGHALL_SPARK_MASTER") or LOCAL
        own = _LOCAL_SETTINGS if is_local(master) else _shipped()
        running = _start(master, name, {**_SETTINGS, **own, **(settings or {})}, quiet)
    register(running)
    return running


def register(spark: SparkSession) -> None:
    """Register `format("longhall")` with a session and the calling thread. Registering twice is harmless."""
    check_pyspark()
    from longhall.pipeline.source import LonghallSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")  # Off by default, and needed for pushDownFilters.
    spark.dataSource.register(LonghallSource)
    # Java keeps by thread which session is the active one, and asks that one for sinks: this makes it ours.
    spark.createDataFrame([], "nothing int")


def check_pyspark() -> str:
    """The version of PySpark. Raises PipelineError unless a compatible one is installed."""
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise PipelineError(f"PySpark is not installed; {INSTALL}") from None
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not PYSPARK[0] <= numbers < PYSPARK[1]:
        raise PipelineError(
            f"PySpark {version} does not fit: it must be {PYSPARK[0][0]}.{PYSPARK[0][1]} or a later one "
            f"below {PYSPARK[1][0]}; {INSTALL}"
        )
    for package in ("pyarrow", "pandas"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise PipelineError(f"{package} is not installed, and Spark needs it; {INSTALL}") from None
    return version


def check_java() -> int:
    """The major version of Java. Raises PipelineError unless it is installed and new enough."""
    advice = "on Debian: apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is none on the path"
        raise PipelineError(f"Spark needs Java {JAVA_MIN} or newer, and {where}; {advice}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found.group(1)) < JAVA_MIN:
        words = found.group(1) if found else "of an unknown version"
        raise PipelineError(f"Spark needs Java {JAVA_MIN} or newer, and {java} is Java {words}; {advice}")
    return int(found.group(1))


def is_local(master: str) -> bool:
    """True if tasks run in the driver's Java process. The executors of a local-cluster are separate processes."""
    return master == "local" or master.startswith("local[")


def _shipped() -> dict[str, str]:
    from longhall.pipeline.executor_package import settings_for_executors

    return settings_for_executors()


def _prepare_environment(master: str) -> None:
    """Set the interpreter and the address: Spark's defaults are another interpreter and a host name that may not
    resolve.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if re.match(r"local\b|spark://(localhost|127\.)", master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _start(master: str, name: str, settings: Mapping[str, str], quiet: bool) -> SparkSession:
    _prepare_environment(master)
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    conf = SparkConf().setAppName(name).setMaster(master)
    for key, value in settings.items():
        conf.set(key, value)
    try:
        context = SparkContext(conf=conf, gateway=_quiet_gateway(conf) if quiet else None)
    except PySparkException as failure:
        raise PipelineError(f"Spark did not start: {_reason(str(failure))}") from failure
    except Exception as failure:  # Py4J hands through whatever Java threw.
        raise PipelineError(f"no Spark at {master}: {_reason(str(failure))}") from failure
    if quiet:
        context.setLogLevel("OFF")
    return SparkSession(context)


def _quiet_gateway(conf: Any) -> Any:
    """Start Java with its output in a file that is deleted when this process ends."""
    global _quiet_log
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    existing = SparkContext._gateway
    if existing is not None or os.environ.get("LONGHALL_DEBUG"):
        return existing
    descriptor, path = tempfile.mkstemp(prefix="longhall-spark-", suffix=".log")
    _quiet_log = Path(path)
    atexit.register(_quiet_log.unlink, missing_ok=True)
    try:
        launch: Any = launch_gateway
        return launch(conf, popen_kwargs={"stdout": descriptor, "stderr": descriptor})
    finally:
        os.close(descriptor)


def _reason(said: str) -> str:
    """The line that matters: Java's exception if there is one, else the end of what Java printed."""
    thrown = re.findall(r"(?:Exception|Error): ([^\n]+)", said)
    if thrown:
        return str(thrown[-1]).strip()
    printed = _quiet_log.read_text(errors="replace").strip().splitlines() if _quiet_log is not None else []
    return (printed or said.strip().splitlines() or ["no reason given"])[-1]
