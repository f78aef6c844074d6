"""Views grant what the threat model grants; the memo answers the same whoever asks first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dpeval.plugin import Release
from dpeval.types import Embeddings, NoClaim, Predictions, PrivacyClaim, Records
from dpeval.views import Memo, embeddings_of, predictions_of

POOL = Records(tuple("abcd"), tuple("wxyz"), (0, 1, 0, 1))
OWN = Records(("p", "q"), ("own text", "another"), (0, 0))


class BatchDependent(Release):
    """Answers that depend on how many records are asked about at once: what a memo must not let through."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    @property
    def claim(self) -> PrivacyClaim:
        return NoClaim()

    @property
    def taps(self) -> tuple[str, ...] | None:
        return None

    def predict(self, records: Records, *, draw: int = 0) -> Predictions:
        self.asked.append(len(records))
        return Predictions(records.ids, np.full((len(records), 2), len(records) + 10.0 * draw))

    def embed(self, records: Records, tap: str, *, draw: int = 0) -> Embeddings:
        self.asked.append(len(records))
        values = np.array([[len(records), ord(str(t)[0])] for t in records.texts], dtype=np.float32)
        return Embeddings(records.ids, values, np.arange(len(records) + 1, dtype=np.int64))

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> Release:
        return cls()


@pytest.mark.parametrize("first", [[0], [3, 1], [0, 1, 2, 3]])
def test_the_first_question_does_not_shape_later_answers(first: list[int]) -> None:
    release = BatchDependent()
    memo = Memo(release, [POOL])
    memo.predict(POOL.take(first), 0)
    assert memo.predict(POOL.take([2]), 0).log_probs.tolist() == [[4.0, 4.0]]
    assert release.asked == [4], "the pool was asked once"


def test_answers_follow_the_ids_and_draws_are_kept_apart() -> None:
    memo = Memo(BatchDependent(), [POOL])
    turned = memo.embed(POOL.take([3, 0]), "output", 0)
    assert turned.ids == ("d", "a")
    assert turned.values[:, 1].tolist() == [ord("z"), ord("w")]
    assert memo.predict(POOL, 1).log_probs[0, 0] == 14.0


def test_another_text_under_a_known_id_is_not_taken_for_the_known_one() -> None:
    memo = Memo(BatchDependent(), [POOL])
    disguised = Records(("a",), ("something else",), (0,))
    assert memo.embed(disguised, "output", 0).values.tolist() == [[1.0, float(ord("s"))]]


def test_an_attack_cannot_embed_the_targets_or_reach_the_release() -> None:
    view = embeddings_of(Memo(BatchDependent(), [POOL]), POOL, "output")
    with pytest.raises(ValueError, match="not the targets"):
        view.embed(POOL.take([0]))
    assert view.embed(OWN).ids == ("p", "q")
    for granted in (view, predictions_of(Memo(BatchDependent()))):
        public = [name for name in dir(granted) if not name.startswith("_")]
        assert set(public) <= {"tap", "encoding", "intercepted", "embed", "predict"}


def test_the_negative_control_gives_every_target_the_rows_of_another() -> None:
    order = np.array([1, 2, 3, 0])
    view = embeddings_of(Memo(BatchDependent(), [POOL]), POOL, "output", order)
    assert view.intercepted().ids == POOL.ids
    assert [chr(int(v)) for v in view.intercepted().values[:, 1]] == ["x", "y", "z", "w"]
