"""Reads a data set of the Hugging Face hub, or its copy in the local cache where the hub cannot be reached.

The hub is asked once, with a deadline, before anything is downloaded: a machine without a network learns within seconds
that a data set is missing, and what to write instead. Code that comes with a data set is never run.

>>> HubId.parse("stanfordnlp/sst2@8d51e7e")
HubId(repo='stanfordnlp/sst2', revision='8d51e7e')
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpeval.data.arrow import from_datasets
from dpeval.data.errors import DataError
from dpeval.data.table import Table
from dpeval.types import Note

DEADLINE_SECONDS = 8.0
_TOO_MANY = 429
_SERVER_ERRORS = 500
_REPO = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class HubId:
    """Which data set of the hub, and which revision of it (None: the newest)."""

    repo: str
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> HubId:
        """``OWNER/NAME`` or ``OWNER/NAME@REVISION``; DataError for anything else."""
        repo, at, revision = text.partition("@")
        if not _REPO.fullmatch(repo) or (at and not revision):
            raise DataError(f"[data] source: expected hub:OWNER/NAME or hub:OWNER/NAME@REVISION, got 'hub:{text}'")
        return cls(repo, revision or None)


@dataclass(frozen=True)
class _Answer:
    """What the hub said: the commit to read, or why there is none."""

    commit: str | None = None
    refused: str | None = None
    silent: str | None = None


def read_hub(text: str, *, subset: str | None, split: str | None, wanted: Sequence[str]) -> Table:
    """The rows of the hub data set that ``text`` names.

    Raises:
        DataError: the hub has no such data set, or cannot be reached and the cache has no copy (within ten seconds).
    """
    hub = HubId.parse(text)
    answer = _ask(hub)
    if answer.refused is not None:
        raise DataError(f"hub:{text} cannot be read: {answer.refused}; {_instead(hub)}")
    data, note = _download(hub, subset, answer.commit) if answer.commit else _cached(hub, subset, answer)
    table = from_datasets(data, f"hub:{hub.repo}", split=split, wanted=wanted)
    return replace(table, notes=(*table.notes, replace(note, count=len(table))))


def _ask(hub: HubId) -> _Answer:
    """Ask the hub for the commit, in a thread of its own: looking up a host name knows no deadline."""
    answers: list[_Answer] = []
    asker = threading.Thread(target=lambda: answers.append(_asked(hub)), daemon=True)
    asker.start()
    asker.join(DEADLINE_SECONDS)
    return answers[0] if answers else _Answer(silent=f"no answer within {DEADLINE_SECONDS:g} seconds")


def _asked(hub: HubId) -> _Answer:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        info = HfApi().dataset_info(hub.repo, revision=hub.revision, timeout=DEADLINE_SECONDS)
    except HFValidationError as error:
        return _Answer(refused=_one_line(error))
    except HfHubHTTPError as error:
        busy = error.response.status_code == _TOO_MANY or error.response.status_code >= _SERVER_ERRORS
        return _Answer(silent=_one_line(error)) if busy else _Answer(refused=_one_line(error))
    except Exception as error:  # noqa: BLE001 — the HTTP client behind the hub library has changed before
        return _Answer(silent=_one_line(error))
    return _Answer(commit=info.sha or hub.revision or "main")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _download(hub: HubId, subset: str | None, commit: str) -> tuple[Any, Note]:
    import datasets

    try:
        data = datasets.load_dataset(hub.repo, name=subset, revision=commit)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(
            f"hub:{hub.repo} at {commit} cannot be read: {_one_line(error)}; where it has several configurations, "
            "name one in subset"
        ) from error
    return data, Note(f"read from the hub at revision {commit}", 0)


def _cached(hub: HubId, subset: str | None, answer: _Answer) -> tuple[Any, Note]:
    from datasets.packaged_modules.cache.cache import Cache

    name = hub.repo.rsplit("/", 1)[-1]
    try:
        builder = Cache(dataset_name=name, repo_id=hub.repo, config_name=subset, version="auto", hash="auto")
        data = builder.as_dataset()
    except (OSError, ValueError) as error:
        raise DataError(
            f"hub:{hub.repo} cannot be read: the hub is out of reach ({answer.silent}) and the local cache has no copy "
            f"({str(error).splitlines()[0]}); {_instead(hub)}"
        ) from error
    revision = str(builder.hash)
    if hub.revision is not None and not revision.startswith(hub.revision):
        raise DataError(
            f"hub:{hub.repo}@{hub.revision} cannot be read: the hub is out of reach ({answer.silent}) and the local "
            f"cache holds revision {revision}; leave @{hub.revision} out to use that one"
        )
    return data, Note(f"read from the local cache, revision {revision}; the hub is out of reach", 0)


def _instead(hub: HubId) -> str:
    return (
        f"check the name {hub.repo!r}, or give a local copy: source = 'PATH' of a .csv, .tsv, .jsonl or .parquet file, "
        "or of a folder written by datasets.save_to_disk"
    )
