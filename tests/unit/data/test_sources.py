"""Sources: files of every format and compression, saved data sets, synthetic rows, what does not exist."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import socket
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpeval.data.config import DataConfig
from dpeval.data.errors import DataError
from dpeval.data.sources import read_source
from dpeval.data.table import Table

PLAIN = "text,label\nfine,1\npoor,0\n"
CELLS = {"text": ["fine", "poor"], "label": ["1", "0"]}


def read(folder: Path, source: str, *, split: str | None = None, **changes: object) -> Table:
    config = DataConfig(**{"source": source, "text": "text", "label": "label", **changes})  # type: ignore[arg-type]
    return read_source(source, config, folder, split)


def zipped(raw: bytes, *names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, raw)
    return buffer.getvalue()


def zstd(raw: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        ("", lambda raw: raw),
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", zstd),
        (".zip", lambda raw: zipped(raw, "inner.csv", "__MACOSX/inner.csv")),
    ],
)
def test_compressed_files_hold_the_same_rows(tmp_path: Path, ending: str, pack: object) -> None:
    """Every compression gives the rows of the plain file."""
    (tmp_path / f"data.csv{ending}").write_bytes(pack(PLAIN.encode()))  # type: ignore[operator]
    table = read(tmp_path, f"data.csv{ending}")
    assert table.cells == CELLS
    assert (table.rows, table.lines) == ((1, 2), (2, 3))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst", ".zip"])
def test_a_damaged_archive_is_an_error_that_names_the_file(tmp_path: Path, ending: str) -> None:
    """Bytes that are no archive do not surface as a library's own exception."""
    (tmp_path / f"data.csv{ending}").write_bytes(b"\x1f\x8b no archive at all")
    with pytest.raises(DataError, match=rf"data.csv\{ending} cannot be read"):
        read(tmp_path, f"data.csv{ending}")


def test_a_zip_with_two_files_is_refused(tmp_path: Path) -> None:
    """Which of several files is meant is not guessed."""
    (tmp_path / "data.csv.zip").write_bytes(zipped(b"x", "a.csv", "b.csv"))
    with pytest.raises(DataError, match=r"holds 2: 'a.csv', 'b.csv'"):
        read(tmp_path, "data.csv.zip")


def test_a_file_with_another_delimiter_says_so(tmp_path: Path) -> None:
    """A semicolon file has one column; the error leads to the key, which then reads it."""
    (tmp_path / "data.csv").write_text(PLAIN.replace(",", ";"), encoding="utf-8")
    with pytest.raises(DataError, match=r"has no column 'text'.*set delimiter"):
        read(tmp_path, "data.csv").column("text")
    assert read(tmp_path, "data.csv", delimiter=";").cells == CELLS


def test_parquet_keeps_types(tmp_path: Path) -> None:
    """Nullable whole numbers, dictionaries and booleans arrive as Python values; a damaged file is an error."""
    cells = {
        "text": pa.array(["a", None]),
        "label": pa.array([1, None], pa.int64()),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "other": pa.array([1.5, 2.5]),
    }
    pq.write_table(pa.table(cells), tmp_path / "data.parquet")
    table = read(tmp_path, "data.parquet", attribute="kind")
    assert table.cells == {"text": ["a", None], "label": [1, None], "kind": ["x", "y"]}
    assert table.columns == ("text", "label", "kind", "other")
    (tmp_path / "data.parquet.gz").write_bytes(gzip.compress((tmp_path / "data.parquet").read_bytes()))
    assert read(tmp_path, "data.parquet.gz", attribute="kind").cells == table.cells
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=r"bad.parquet is not a readable parquet file"):
        read(tmp_path, "bad.parquet")


def test_saved_data_sets(tmp_path: Path) -> None:
    """Folders of save_to_disk: one table or several splits; class labels come by name, -1 as missing."""
    import datasets

    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    parts = {
        name: datasets.Dataset.from_dict({"text": [f"{name} a", f"{name} b"], "label": [1, last]}, features=features)
        for name, last in (("train", 0), ("validation", 0), ("test", -1))
    }
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "both"))
    parts["train"].save_to_disk(str(tmp_path / "one"))
    assert read(tmp_path, "one").cells == {"text": ["train a", "train b"], "label": ["pos", "neg"]}
    assert read(tmp_path, "both", split="validation + train").cells["text"] == [
        "validation a", "validation b", "train a", "train b",
    ]  # fmt: skip
    assert read(tmp_path, "both", split="test").cells["label"] == ["pos", None]
    default = read(tmp_path, "both")
    assert default.cells["text"] == ["train a", "train b"]
    assert "'validation', 'test'" in default.notes[0].what
    with pytest.raises(DataError, match=r"no split 'tran'; did you mean 'train'"):
        read(tmp_path, "both", split="tran")
    with pytest.raises(DataError, match=r"without splits"):
        read(tmp_path, "one", split="train")


def test_a_folder_that_is_no_saved_data_set(tmp_path: Path) -> None:
    """Any other folder is refused with what to name instead."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"'?folder'? is a folder without a data set"):
        read(tmp_path, "folder")


def test_sources_that_do_not_exist(tmp_path: Path) -> None:
    """Errors offer near misses: of file names, of synthetic names and their options; and list the endings."""
    (tmp_path / "reviews.csv").write_text(PLAIN, encoding="utf-8")
    (tmp_path / "data.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match=r"no file 'review.csv' in .*did you mean 'reviews.csv'"):
        read(tmp_path, "review.csv")
    with pytest.raises(DataError, match=r"no folder .*nowhere"):
        read(tmp_path, "nowhere/reviews.csv")
    with pytest.raises(DataError, match=r"expected a file that ends in '.csv'.*'.parquet'.*'.gz'"):
        read(tmp_path, "data.xlsx")
    with pytest.raises(DataError, match=r"a file has no splits.*use where"):
        read(tmp_path, "reviews.csv", split="train")
    with pytest.raises(DataError, match=r"no synthetic data set 'review'; did you mean 'reviews'"):
        read(tmp_path, "synthetic:review")
    with pytest.raises(DataError, match=r"no option 'sead'; did you mean 'seed'"):
        read(tmp_path, "synthetic:reviews?sead=1")


def test_synthetic_rows_are_determined_by_the_source(tmp_path: Path) -> None:
    """The same source gives the same rows, another seed others; duplicates repeat an earlier text but for a word."""
    once, again, other = (read(tmp_path, f"synthetic:reviews?n=50&seed={seed}") for seed in (1, 1, 2))
    assert once.cells == again.cells
    assert once.cells != other.cells
    texts = read(tmp_path, "synthetic:reviews?n=50&duplicates=10").cells["text"]
    starts = {str(text).rsplit(" ", 1)[0] for text in texts[:40]}
    assert all(str(text).rsplit(" ", 1)[0] in starts for text in texts[40:])


def test_local_sources_open_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, folders and synthetic data are read without any attempt to reach a network."""
    import datasets

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a local source reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    datasets.Dataset.from_dict(CELLS).save_to_disk(str(tmp_path / "saved"))
    pq.write_table(pa.table(CELLS), tmp_path / "data.parquet")
    (tmp_path / "data.csv").write_text(PLAIN, encoding="utf-8")
    for source in ("saved", "data.parquet", "data.csv", "synthetic:reviews?n=2"):
        assert len(read(tmp_path, source)) == 2
