"""Where a checkpoint's files are: a local folder, or the hub through its own cache.

A local folder never touches the network. A hub name that is cached is read from the cache; one that is not is fetched
after a short look whether the hub answers at all, so that an offline machine is told so within seconds.

>>> find_checkpoint("no/such/folder", Path("/nowhere"))
Traceback (most recent call last):
    ...
dpeval.errors.ModelError: model folder /nowhere/no/such/folder: not found; give a folder with config.json, or hub:ID
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from dpeval.errors import ModelError

PATTERNS = ("*.json", "*.txt", "*.model", "*.safetensors", "*.vocab", "*.bpe", "*.merges")
ANSWER_SECONDS = 4.0


def find_checkpoint(source: str, base: Path) -> Path:
    """The folder that holds the files of ``source``; a relative folder is looked up in ``base``.

    Raises ModelError when there is no such folder, or when a hub name is neither cached nor reachable.
    """
    if source.startswith("hub:"):
        name, _, revision = source.removeprefix("hub:").partition("@")
        return _from_hub(name, revision or None)
    folder = (base / Path(source).expanduser()).resolve()
    if not folder.is_dir():
        raise ModelError(f"model folder {folder}: not found; give a folder with config.json, or hub:ID")
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"model folder {folder}: expected a transformers checkpoint, but there is no config.json in it"
        )
    return folder


def _from_hub(name: str, revision: str | None) -> Path:
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        cached = _snapshot(name, revision, local_only=True)
        if _complete(cached):
            return cached
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise ModelError(f"hub:{name}: not a valid hub name: {error}") from error
    _need_hub(name)
    try:
        return _snapshot(name, revision, local_only=False)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ModelError(f"hub:{name}: cannot be fetched: {error}. {_remedy()}") from error


def _snapshot(name: str, revision: str | None, *, local_only: bool) -> Path:
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(
            name, revision=revision, local_files_only=local_only, allow_patterns=list(PATTERNS), etag_timeout=5
        )
    )


def _complete(folder: Path) -> bool:
    return (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))


def _need_hub(name: str) -> None:
    """Say within seconds when the hub does not answer; its client would retry for minutes."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "TRUE", "YES", "ON"}:
        raise ModelError(f"hub:{name}: not in the local cache, and HF_HUB_OFFLINE forbids the network. {_remedy()}")
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    target = urlsplit(proxy) if proxy else endpoint
    port = target.port or (80 if target.scheme == "http" else 443)
    try:
        socket.create_connection((target.hostname or "", port), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        raise ModelError(
            f"hub:{name}: not in the local cache, and {target.hostname} does not answer ({error}). {_remedy()}"
        ) from error


def _remedy() -> str:
    return 'Without the hub, download the checkpoint elsewhere and give its folder: source = "path/to/folder"'
