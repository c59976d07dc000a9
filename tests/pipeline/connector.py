"""Spark's own Kafka connector, as jars from the Maven registry: what our data source is held against."""

from __future__ import annotations

import functools
import importlib.metadata
import shutil
from pathlib import Path

from tests.clients.programs import CACHE, fetched

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>longhall.tests</groupId>
  <artifactId>spark-connector</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId>
      <artifactId>spark-sql-kafka-0-10_2.13</artifactId>
      <version>{version}</version>
      <exclusions>
        <exclusion><groupId>*</groupId><artifactId>hadoop-client-api</artifactId></exclusion>
        <exclusion><groupId>*</groupId><artifactId>hadoop-client-runtime</artifactId></exclusion>
        <exclusion><groupId>*</groupId><artifactId>scala-library</artifactId></exclusion>
      </exclusions>
    </dependency>
  </dependencies>
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
    pom.write_text(POM.format(version=importlib.metadata.version("pyspark")))
    command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
    try:
        directory = fetched("spark-connector", [pom], command)
    except pytest.skip.Exception as missing:
        return (), str(missing.msg)
    wanted = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return tuple(sorted(jar for jar in (directory / "lib").glob("*.jar") if jar.name.startswith(wanted))), None
