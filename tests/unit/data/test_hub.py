"""The hub: asked once and with a deadline; what is said when it does not answer; the cached copy."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import datasets
import huggingface_hub
import pytest

from dpeval.data import hub
from dpeval.data.errors import DataError
from dpeval.data.hub import HubId, read_hub

SHA = "8d51e7e4887a4caaa95b3fbebbf53c0490b58bbb"


@pytest.fixture
def out_of_reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a network and with an empty cache; the folder of the cache."""

    def unreachable(*args: object, **kwargs: object) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", unreachable)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_into_cache(cache: Path) -> None:
    """Lay out a data set 'someone/tiny' as the library caches what it downloads."""
    rows = datasets.Dataset.from_dict({"text": ["fine", "poor"], "label": [1, 0]})
    rows.to_parquet(str(cache.parent / "tiny.parquet"))
    made = cache.parent / "made"
    datasets.load_dataset("parquet", data_files=str(cache.parent / "tiny.parquet"), cache_dir=str(made))
    (info,) = made.glob("parquet/*/*/*/dataset_info.json")
    folder = cache / "someone___tiny" / "default" / "0.0.0" / SHA
    shutil.copytree(info.parent, folder)
    (folder / "parquet-train.arrow").rename(folder / "tiny-train.arrow")
    text = (folder / "dataset_info.json").read_text(encoding="utf-8")
    (folder / "dataset_info.json").write_text(text.replace(info.parts[-4], "default"), encoding="utf-8")


@pytest.mark.parametrize("text", ["", "a/b/c", "a b", "owner/name@"])
def test_names_that_cannot_be_on_the_hub(text: str) -> None:
    """A malformed name is refused before anything is asked."""
    with pytest.raises(DataError, match=r"expected hub:OWNER/NAME"):
        HubId.parse(text)


def test_an_uncached_name_out_of_reach_names_itself_and_the_way_out(out_of_reach: Path) -> None:
    """Within ten seconds the error names the id and says that a local path does."""
    start = time.monotonic()
    with pytest.raises(DataError, match=r"hub:someone/tiny cannot be read: .*out of reach.*source = 'PATH'"):
        read_hub("someone/tiny", subset=None, split=None, wanted=("text", "label"))
    assert time.monotonic() - start < 10


def test_a_silent_hub_is_given_up_at_the_deadline(out_of_reach: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host name that is looked up for ever does not hold the run."""
    over = threading.Event()

    def slow(*args: object, **kwargs: object) -> SimpleNamespace:
        over.wait(5)
        return SimpleNamespace(sha=SHA)

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", slow)
    monkeypatch.setattr(hub, "DEADLINE_SECONDS", 0.2)
    start = time.monotonic()
    with pytest.raises(DataError, match=r"no answer within 0.2 seconds"):
        read_hub("someone/tiny", subset=None, split=None, wanted=("text",))
    assert time.monotonic() - start < 3
    over.set()


def test_the_cached_copy_is_used_and_its_revision_said(out_of_reach: Path) -> None:
    """Out of reach, the cache is read; another revision than the cached one is refused, not replaced."""
    put_into_cache(out_of_reach)
    table = read_hub(f"someone/tiny@{SHA[:7]}", subset=None, split="train", wanted=("text", "label"))
    assert table.cells == {"text": ["fine", "poor"], "label": [1, 0]}
    assert SHA in table.notes[-1].what
    with pytest.raises(DataError, match=f"holds revision {SHA}"):
        read_hub("someone/tiny@1234567", subset=None, split=None, wanted=("text",))


def test_within_reach_the_commit_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit that the hub names is the one downloaded, without any code of the data set's, and it is noted."""
    asked: dict[str, object] = {}

    def download(repo: str, **options: object) -> datasets.Dataset:
        asked.update(options, repo=repo)
        return datasets.Dataset.from_dict({"text": ["fine"], "label": [1]})

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *a, **k: SimpleNamespace(sha=SHA))
    monkeypatch.setattr(datasets, "load_dataset", download)
    table = read_hub("someone/tiny", subset="part", split=None, wanted=("text", "label"))
    assert asked == {"repo": "someone/tiny", "name": "part", "revision": SHA}
    assert (table.notes[-1].what, table.notes[-1].count) == (f"read from the hub at revision {SHA}", 1)


def test_a_name_that_the_hub_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub's refusal is passed on with the name, and the cache is not asked."""
    from huggingface_hub.errors import HFValidationError

    def refuse(*args: object, **kwargs: object) -> None:
        raise HFValidationError("Repository Not Found")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", refuse)
    with pytest.raises(DataError, match=r"hub:someone/tiny cannot be read: Repository Not Found; check the name"):
        read_hub("someone/tiny", subset=None, split=None, wanted=("text",))


@pytest.mark.parametrize(("status", "said"), [(404, "check the name"), (503, "out of reach"), (429, "out of reach")])
def test_a_refusal_is_told_from_a_hub_in_trouble(
    out_of_reach: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    """An unknown name is final; a busy or broken server is like no server, and the cache is asked."""

    class Refused(huggingface_hub.errors.HfHubHTTPError):
        def __init__(self) -> None:
            Exception.__init__(self, f"{status}\n\nfor url")
            self.response = SimpleNamespace(status_code=status)  # type: ignore[assignment]

    def refuse(*args: object, **kwargs: object) -> None:
        raise Refused

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", refuse)
    with pytest.raises(DataError, match=rf"hub:someone/tiny cannot be read: .*{said}") as caught:
        read_hub("someone/tiny", subset=None, split=None, wanted=("text",))
    assert ("the local cache has no copy" in str(caught.value)) == (status != 404)
