"""``dpeval audit FILE``: every format gives the same numbers, and what is wrong is said with file, line and column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpeval.cli import status_of
from dpeval.errors import DataError
from dpeval.scores.file import audit_file
from dpeval.scores.reading import read_scores


def sample(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    member = rng.random(n) < 0.5
    return pd.DataFrame(
        {"id": [f"r{i}" for i in range(n)], "score": rng.normal(size=n) + member, "member": member, "group": range(n)}
    )


def written(folder: Path, name: str) -> Path:
    frame, path = sample(), folder / name
    as_words = frame.assign(member=np.where(frame["member"], "member", "Non-Member"))
    writers = {
        "s.csv": lambda: frame.to_csv(path, index=False),
        "s.csv.gz": lambda: frame.assign(member=frame["member"].astype(int)).to_csv(path, index=False),
        "s.tsv": lambda: as_words.to_csv(path, index=False, sep="\t"),
        "s.jsonl": lambda: frame.to_json(path, orient="records", lines=True, double_precision=15),
        "s.json": lambda: path.write_text(json.dumps({k: frame[k].tolist() for k in frame}, indent=1)),
        "s.parquet": lambda: frame.to_parquet(path),
        "s.npz": lambda: np.savez(path, **{k: frame[k].to_numpy() for k in ("score", "member", "group")},
                                  id=frame["id"].to_numpy(dtype="U8")),
    }  # fmt: skip
    writers[name]()
    return path


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.tsv", "s.jsonl", "s.json", "s.parquet", "s.npz"])
def test_every_format_says_the_same(tmp_path: Path, name: str) -> None:
    found = read_scores(written(tmp_path, name))
    frame = sample()
    assert found.score == pytest.approx(tuple(frame["score"]), rel=1e-12)
    assert found.member == tuple(frame["member"])
    assert found.id == tuple(frame["id"])
    assert found.group == tuple(map(str, frame["group"]))
    assert found.seed is None


def test_two_arrays_of_scores(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", members=np.array([0.9, 0.8]), nonmembers=np.array([0.1]))
    found = read_scores(tmp_path / "s.npz")
    assert found.score == (0.9, 0.8, 0.1)
    assert found.member == (True, True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("score,member\n0.1,1\nnan,0\n", r"s.csv, line 3, column 'score': expected a finite score, got 'nan'"),
        ("score,member\n0.1,1\n,0\n", r"line 3, column 'score': the score is missing"),
        ('score,member\n0.1,1\n"0,5",0\n', r"line 3, column 'score': expected a number such as 0.25 \(with a point\)"),
        ("scores,membr\n0.1,1\n", r"no column 'member'; did you mean 'membr'\?"),
        ("value,member\n0.1,1\n", r"no column 'score'"),
        ("score,member\n0.1,1\n0.2,1\n", r"column 'member': only members \(2 rows\); undefined \(one class\)"),
        ("score,member\n0.1,1\n0.2,2\n", r"line 3, column 'member': expected 1 or 0.*got '2'"),
        ("score,member\n0.1,1\n0.2,\n", r"line 3, column 'member': .*got nothing"),
        ("id,score,member\na,1,1\nb,1,0\na,2,0\n", r"line 4, column 'id': id 'a' was already on line 2"),
        ("id,score,member\n,1,1\nb,1,0\n", r"line 2, column 'id': the cell is empty"),
        ("score,member,seed\n1,1,0\n1,0,0\n2,1,1\n", r"only members \(1 rows\) of seed '1'"),
        ("score,member\n", r"no rows; undefined \(one class\)"),
        ("", r"s.csv is empty"),
        ("score,member\n1\n", r"line 2: expected 2 fields"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_scores(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.jsonl", b'{"score": 1, "member": 1}\n{"score": NaN, "member": 0}\n', "line 2, column 'score'"),
        ("s.jsonl", b'{"score": 1, "member": 1}\n{"score": true, "member": 0}\n', "expected a number, got True"),
        ("s.jsonl", b'{"score": 1, "member": 1}\n{"member": 0}\n', "line 2, column 'score': the score is missing"),
        ("s.jsonl", b'{"score": 1\n', "line 1, column 12: not JSON"),
        ("s.xlsx", b"", "ends in '.csv'"),
        ("s.csv", b"score,member\n\xff,1\n", "save it as UTF-8"),
        ("s.npz", b"PK\x03\x04", "not a readable .npz"),
        ("s.parquet", b"PAR1", "not a readable parquet"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_scores(tmp_path / name)


def test_pickled_arrays_are_not_opened(tmp_path: Path) -> None:
    """An .npz file is data: objects in it are refused, not run."""
    np.savez(tmp_path / "s.npz", score=np.array([1.0, None], dtype=object), member=np.array([1, 0]))
    with pytest.raises(DataError, match="plain arrays"):
        read_scores(tmp_path / "s.npz")


def test_columns_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("loss,truth\n0.9,1\n0.1,0\n", encoding="utf-8")
    found = read_scores(tmp_path / "s.csv", {"score": "loss", "member": "truth"})
    assert found.score == (0.9, 0.1)
    with pytest.raises(DataError, match="no column 'los'; did you mean 'loss'"):
        read_scores(tmp_path / "s.csv", {"score": "los", "member": "truth"})


def test_the_same_record_of_several_seeds_is_one_unit(tmp_path: Path) -> None:
    frame = pd.concat([sample().assign(seed=s) for s in range(3)])
    frame.to_csv(tmp_path / "s.csv", index=False)
    found = audit_file(tmp_path / "s.csv")
    assert found.models == 3
    assert found.auc.n == 120


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--claim-epsilon", "0.1"], 3),
        (["--claim-epsilon", "0.1", "--inclusion", "independent-coins", "--format", "json"], 3),
        (["--claim-epsilon", "8"], 0),
        ([], 0),
        (["--level", "95"], 2),
        (["--prevalence", "0"], 2),
        (["--format", "yaml"], 2),
        (["--inclusion", "coins"], 2),
        (["--claim-epsilon", "x"], 2),
    ],
)
def test_exit_statuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int) -> None:
    rng = np.random.default_rng(1)
    member = rng.random(600) < 0.5
    pd.DataFrame({"score": rng.normal(size=600) + 3 * member, "member": member}).to_csv(tmp_path / "s.csv")
    assert status_of(["audit", str(tmp_path / "s.csv"), *words]) == status
    out = capsys.readouterr()
    assert ("CLAIM REFUTED" in out.out or '"refuted": true' in out.out) == (status == 3)
    assert bool(out.err) == (status == 2)


def test_json_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path, "s.csv"), tmp_path / "deep" / "audit.json"
    out.parent.mkdir()
    assert status_of(["audit", str(path), "--format", "json", "--out", str(out), "--prevalence", "0.01"]) == 0
    body = json.loads(out.read_text(encoding="utf-8"))
    assert "ppv@1%" in body["estimates"]
    assert str(out) in capsys.readouterr().out


def test_one_class_in_a_case_file(case_file) -> None:
    """A file that holds members only is refused by name; no number is made of it."""
    with pytest.raises(DataError, match=r"undefined \(one class\)"):
        audit_file(case_file("d01_single_class.json"))


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_separators_of_a_csv_file(tmp_path: Path, mark: str) -> None:
    """What spreadsheets write where the comma is the decimal mark."""
    path = tmp_path / "s.csv"
    path.write_text(f"score{mark}member\n0.5{mark}1\n0.25{mark}0\n")
    assert read_scores(path).score == (0.5, 0.25)
    path.write_text(f"score{mark}member\n0,5{mark}1\n")
    with pytest.raises(DataError, match=r"line 2, column 'score': expected a number such as 0.25 \(with a point\)"):
        read_scores(path)


def test_two_lists_of_scores_in_one_object(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"members": [0.9, 0.8], "nonmembers": [0.1]}))
    assert read_scores(tmp_path / "s.json").member == (True, True, False)


def test_a_seed_for_each_score_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("score,member,seed\n0.5,1,0\n0.2,0,1\n")
    with pytest.raises(DataError, match="leave the seeds out"):
        read_scores(path)
