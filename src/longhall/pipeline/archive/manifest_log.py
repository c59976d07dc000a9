"""The versions of one topic's manifest, and the fencing of its writers.

A writer claims the archive by publishing a version with its own name; from then on no other writer can publish, and
files of earlier writers can be removed. Where a file can be created exclusively (a local disk), the name of a version
is the lock. Elsewhere writers agree by claims, on any store with read-after-write consistency:

    put claim v       and read: another claim of v or later means that this one is lost
    put manifest v    and read the claims, then the manifests: one later than v means that another writer took over

Of two writers at most one finds itself alone. A writer that died leaves an unused version number.
"""

from __future__ import annotations

import re
from typing import Final, final

import msgspec

from longhall.pipeline.archive.manifest import (
    ArchiveManifest,
    decode,
    encode,
    manifest_directory,
    manifest_path,
    topic_directory,
)
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.refusals import PipelineError

VERSIONS_KEPT: Final = 5
CLAIMS_TRIED_MAX: Final = 20

_MANIFEST: Final = re.compile(r"/_manifest/(\d{20})\.json$")
_ARCHIVED: Final = re.compile(r"(?:^|/)topic=([^/]+)/_manifest/\d{20}\.json$")
_CLAIM: Final = re.compile(r"/_manifest/claims/(\d{20})-([0-9a-f]+)$")


@final
class ManifestLog:
    """The manifests of one topic in one archive."""

    def __init__(self, storage: Storage, topic: str) -> None:
        self._storage = storage
        self._topic = topic

    def latest(self) -> ArchiveManifest | None:
        """The latest version; None if nothing was archived. Raises PipelineError if it is damaged."""
        versions = self._versions()
        while versions:
            path = manifest_path(self._topic, versions[-1])
            try:
                return decode(memoryview(self._storage.read(path)).tobytes(), f"{self._storage.name}/{path}")
            except PipelineError:
                again = self._versions()
                if again[-1:] == versions[-1:]:
                    raise
                versions = again  # A writer is at work: that version is one of the old ones by now.
        return None

    def claim(self, writer: str, topic_id: str) -> ArchiveManifest:
        """Take the archive over: publish the latest version again under this writer's name."""
        for _ in range(CLAIMS_TRIED_MAX):
            before = self.latest()
            if before is not None and before.topic_id != topic_id:
                raise PipelineError(
                    f"topic {self._topic} was deleted and made anew since it was archived to {self._storage.name}; "
                    "archive it to another place"
                )
            used = [number for number, _ in self._claims()] + self._versions()
            version = max(used, default=0) + 1
            if before is None:
                mine = ArchiveManifest(topic=self._topic, topic_id=topic_id, version=version, writer=writer)
            else:
                mine = msgspec.structs.replace(before, version=version, writer=writer)
            if self._publish(mine, 0 if before is None else before.version):
                return mine
        raise PipelineError(f"others keep writing the archive of {self._topic} at {self._storage.name}; stop them")

    def publish(self, manifest: ArchiveManifest) -> ArchiveManifest:
        """Publish the next version. Raises PipelineError if another writer has taken over."""
        fresh = msgspec.structs.replace(manifest, version=manifest.version + 1)
        if not self._publish(fresh, manifest.version):
            raise PipelineError(
                f"another archiver has taken over {self._topic} at {self._storage.name}; this one stops"
            )
        for version in self._versions()[:-VERSIONS_KEPT]:
            self._storage.delete(manifest_path(self._topic, version))
        return fresh

    def _publish(self, manifest: ArchiveManifest, before: int) -> bool:
        path = manifest_path(self._topic, manifest.version)
        if self._storage.has_links:
            return self._storage.put_if_absent(path, encode(manifest))
        claim = f"{manifest_directory(self._topic)}/claims/{manifest.version:020}-{manifest.writer}"
        self._storage.put(claim, manifest.writer.encode())
        alone = not [one for one in self._claims() if one[0] >= manifest.version and one[1] != manifest.writer]
        if not alone or self._versions()[-1:] != ([before] if before else []):
            self._storage.delete(claim)
            return False
        self._storage.put(path, encode(manifest))
        later = [one for one in self._claims() if one[0] > manifest.version]
        if later or self._versions()[-1] != manifest.version:
            return False
        self._storage.delete(claim)
        return True

    def _versions(self) -> list[int]:
        found = (_MANIFEST.search(f"/{name}") for name in self._storage.list(manifest_directory(self._topic)))
        return sorted(int(each.group(1)) for each in found if each is not None)

    def _claims(self) -> list[tuple[int, str]]:
        found = (_CLAIM.search(f"/{name}") for name in self._storage.list(f"{manifest_directory(self._topic)}/claims"))
        return [(int(each.group(1)), each.group(2)) for each in found if each is not None]

    def sweep(self, manifest: ArchiveManifest) -> int:
        """Remove every file that this manifest does not name. Only the writer that has claimed the archive may call it.

        A writer that was paused and overtaken removes nothing: the files may be its successor's.
        """
        named = manifest.paths()
        ours = f"{manifest_directory(self._topic)}/"
        strays = [
            name
            for name in self._storage.list(topic_directory(self._topic))
            if name not in named and not name.startswith(ours)
        ]
        strays += self._storage.forgotten(manifest_directory(self._topic))
        for swept, name in enumerate(strays):
            if self._versions()[-1:] != [manifest.version]:
                return swept
            self._storage.delete(name)
        return len(strays)


def archived_topics(storage: Storage) -> list[str]:
    """The topics of which an archive has a manifest."""
    found = (_ARCHIVED.search(name) for name in storage.list(""))
    return sorted({each.group(1) for each in found if each is not None})
