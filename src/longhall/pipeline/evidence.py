"""Where reconciliations and reports take their records from: a running hall with its queues, or an archive of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from longhall.pipeline.archived import read_archive
from longhall.pipeline.audited import audit_topic, read_live
from longhall.pipeline.conversation import Conversation
from longhall.pipeline.fates import Period
from longhall.pipeline.options import Subscription
from longhall.pipeline.queue_tables import QueueTables
from longhall.pipeline.reconcile import AUDIT_SLACK_MS, Evidence, live_evidence
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@final
class LivePlace:
    """A running hall. Without `http` nobody asks the queues what they have now."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, http: str = "", access_key: str = "", secret: str = ""
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._http = http
        self._access_key = access_key
        self._secret = secret

    def has_audit(self, name: str) -> bool:
        with Conversation(self._bootstrap) as conversation:
            try:
                return bool(Survey(conversation, Subscription(names=(audit_topic(name),))).topics())
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

    def queue(self, name: str, period: Period, topic: str = "") -> Evidence:
        state = self.tables(name).messages if self._http else None
        return live_evidence(self._spark, self._bootstrap, name, period, state, topic)

    def topic(self, name: str, period: Period) -> Evidence:
        records = read_live(self._spark, self._bootstrap, name, period.from_ms)
        return Evidence(records, records)


@final
class ArchivePlace:
    """What was archived of it: of a queue, its own topic and its audit topic."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self._spark = spark
        self._url = url

    def has_audit(self, name: str) -> bool:
        from longhall.pipeline.archive.ledger import Ledger
        from longhall.pipeline.archive.storage import Storage

        return Ledger(Storage(self._url), audit_topic(name)).latest() is not None

    def queue(self, name: str, period: Period, topic: str = "") -> Evidence:
        if not self.has_audit(name):
            raise PipelineError(
                f"the archive {self._url} has no audit topic {audit_topic(name)}; archive it beside {topic or name}"
            )
        audit = read_archive(self._spark, self._url, audit_topic(name), period.from_ms - AUDIT_SLACK_MS)
        return Evidence(self._records(topic or name, period), audit.records, None, audit.is_cut)

    def topic(self, name: str, period: Period) -> Evidence:
        records = self._records(name, period)
        return Evidence(records, records)

    def _records(self, topic: str, period: Period) -> DataFrame:
        return read_archive(self._spark, self._url, topic, period.from_ms).records
