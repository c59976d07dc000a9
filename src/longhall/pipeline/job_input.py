"""The input of reconciliations and reports: the records of a running hall with its queues, or of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.pipeline.archive.opening import ArchiveKeys
from longhall.pipeline.archive_frame import read_archive
from longhall.pipeline.audit_frames import audit_topic, read_live
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.fates import Period
from longhall.pipeline.options import Subscription
from longhall.pipeline.queue_tables import QueueTables
from longhall.pipeline.reconcile import AUDIT_SLACK_MS, InputRecords, read_live_input
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.subscription_metadata import SubscriptionMetadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@final
class LiveInput:
    """Records of a running hall. Without `http` the queues are not asked for their messages."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, http: str = "", access_key: str = "", secret: str = ""
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._http = http
        self._access_key = access_key
        self._secret = secret

    def has_audit(self, name: str) -> bool:
        with BlockingClient(self._bootstrap) as client:
            try:
                return bool(SubscriptionMetadata(client, Subscription(names=(audit_topic(name),))).topics())
            except PipelineError as failure:
                if "there is no topic" in str(failure):
                    return False
                raise

    def tables(self, name: str) -> QueueTables:
        """The tables of a queue, which the HTTP API fills."""
        return QueueTables(
            self._spark,
            name,
            bootstrap=self._bootstrap,
            http=self._http,
            access_key=self._access_key,
            secret=self._secret,
        )

    def queue(self, name: str, period: Period, topic: str = "") -> InputRecords:
        state = self.tables(name).messages if self._http else None
        return read_live_input(self._spark, self._bootstrap, name, period, state, topic)

    def topic(self, name: str, period: Period) -> InputRecords:
        records = read_live(self._spark, self._bootstrap, name, period.from_ms)
        return InputRecords(records, records)


@final
class ArchiveInput:
    """Records of an archive: of a queue, its topic and its audit topic."""

    def __init__(self, spark: SparkSession, url: str, keys: ArchiveKeys | None = None) -> None:
        self._spark = spark
        self._url = url
        self._keys = keys

    def has_audit(self, name: str) -> bool:
        from longhall.pipeline.archive.manifest_log import ManifestLog
        from longhall.pipeline.archive.storage import Storage

        return ManifestLog(Storage(self._url), audit_topic(name)).latest() is not None

    def queue(self, name: str, period: Period, topic: str = "") -> InputRecords:
        if not self.has_audit(name):
            raise PipelineError(
                f"the archive {self._url} has no audit topic {audit_topic(name)}; archive it beside {topic or name}"
            )
        audit = read_archive(self._spark, self._url, audit_topic(name), period.from_ms - AUDIT_SLACK_MS)
        return InputRecords(self._records(topic or name, period), audit.records, None, audit.is_cut)

    def topic(self, name: str, period: Period) -> InputRecords:
        records = self._records(name, period)
        return InputRecords(records, records)

    def _records(self, topic: str, period: Period) -> DataFrame:
        return read_archive(self._spark, self._url, topic, period.from_ms, self._keys).records
