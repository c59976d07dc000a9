"""What is shipped to executors is enough to read with, on a Python that has nothing of Longhall."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from longhall.pipeline.executor_package import DIRECTORY, archive, settings_for_executors

LOOK = """
import sys
sys.path = [sys.argv[1], *(entry for entry in sys.path if entry != sys.argv[2])]
sys.path += sys.argv[3:]
import longhall.pipeline.source, longhall.pipeline.partition_reader, longhall.pipeline.executor_check, cramjam, crc32c
print(longhall.pipeline.source.__file__, cramjam.__file__)
"""


def test_the_archive_stands_on_its_own(tmp_path: Path) -> None:
    with zipfile.ZipFile(archive()) as box:
        box.extractall(tmp_path)
    import longhall

    home = Path(longhall.__file__).parent.parent
    # Executors bring Spark themselves: where Longhall is installed beside it, that place comes last.
    spark = [str(home)] if (home / "pyspark").exists() else []
    said = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path), str(home), *spark],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    ).stdout.split()
    assert all(Path(file).is_relative_to(tmp_path) for file in said)


def test_the_archive_is_made_once() -> None:
    first = archive()
    made = first.stat().st_mtime_ns
    assert archive() == first
    assert first.stat().st_mtime_ns == made


def test_spark_is_told_where_it_is() -> None:
    settings = settings_for_executors()
    assert settings["spark.archives"].endswith(f".zip#{DIRECTORY}")
    assert settings["spark.executorEnv.PYTHONPATH"] == f"./{DIRECTORY}"
