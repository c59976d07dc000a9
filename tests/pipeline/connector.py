"""Spark's own Kafka connector, as jars from the Maven registry: what our data source is held against."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

from tests.clients.programs import CACHE, fetched

# The newest that the registry has; it works with later versions of Spark as well, which `test_connector` shows.
LIBRARIES = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
# Everything else comes with Spark, and what their own projects name as a place to fetch from is not asked.
DEPENDENCY = """<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>longhall.tests</groupId><artifactId>spark-connector</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{dependencies}</dependencies>
</project>
"""


@functools.cache
def connector_jars() -> tuple[str, ...]:
    """The connector and what it needs beside Spark; empty where it cannot be fetched (`missing_connector` says why)."""
    return tuple(str(jar) for jar in _fetch()[0])


def missing_connector() -> str | None:
    """Why the connector is not here; None if it is."""
    return _fetch()[1]


@functools.cache
def _fetch() -> tuple[tuple[Path, ...], str | None]:
    import pytest

    maven = shutil.which("mvn")
    if maven is None:
        return (), "Spark's Kafka connector: mvn is not on this machine"
    pom = CACHE / "spark-connector.pom" / "pom.xml"
    pom.parent.mkdir(parents=True, exist_ok=True)
    lines = [DEPENDENCY.format(group=group, name=name, version=version) for group, name, version in LIBRARIES]
    pom.write_text(POM.format(dependencies="".join(lines)))
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    try:
        directory = fetched("spark-connector", [pom], command)
    except pytest.skip.Exception as missing:
        return (), str(missing.msg)
    return tuple(sorted((directory / "lib").glob("*.jar"))), None
