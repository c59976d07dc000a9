"""Java and Hadoop's jars for pyarrow's HDFS file system, which does not look for them itself; PySpark brings both.

Hadoop's own `libhdfs.so` is in no Python package, so its path must be configured.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

SCHEMES: Final = ("hdfs://", "viewfs://")
_MISSING: Final = {
    "Unable to load libhdfs": "Hadoop's libhdfs.so is not found; set ARROW_LIBHDFS_DIR to the directory that has it, "
    "here and where executors run",
    "Unable to load libjvm": "Java's libjvm.so is not found; set JAVA_HOME, here and where executors run",
}


def prepare_hadoop() -> None:
    """Set the paths of Java and the jars for libhdfs, unless they are set."""
    java = shutil.which("java")
    if java is not None:
        os.environ.setdefault("JAVA_HOME", str(Path(java).resolve().parent.parent))
    if "CLASSPATH" not in os.environ:
        settings = os.environ.get("HADOOP_CONF_DIR", "")
        os.environ["CLASSPATH"] = os.pathsep.join([*filter(None, [settings]), *_jars()])


def missing_hadoop(said: str) -> str | None:
    """The advice for a failure of pyarrow that is caused by a missing part; None for another failure."""
    return next((advice for words, advice in _MISSING.items() if words in said), None)


def _jars() -> list[str]:
    found = importlib.util.find_spec("pyspark")
    places = found.submodule_search_locations if found is not None else None
    return [str(jar) for place in places or [] for jar in sorted((Path(place) / "jars").glob("*.jar"))]
