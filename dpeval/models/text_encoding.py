"""How a release turns texts into tokens, so that an attack that tokenises in another way is stopped and not misled.

A tokenizer, a length limit or a set of special ids of another kind shifts every position and every id: an inversion
then fails for a reason that has nothing to do with privacy (validity guard V19).

>>> ours = TextEncoding(tokenizer="a1", max_length=64, special_ids=(0, 1))
>>> check_same_encoding(ours, TextEncoding(tokenizer="a1", max_length=32, special_ids=(0, 1)))
Traceback (most recent call last):
...
dpeval.errors.ModelError: the release and the attack do not read texts alike: max_length 64 in the release, 32 in the \
attack; give the attack the checkpoint and settings that the release was made with
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpeval.errors import ModelError
from dpeval.models.fingerprint import tokenizer_text


@dataclass(frozen=True)
class TextEncoding:
    """What decides the token ids of a text and which of them are special."""

    tokenizer: str
    """SHA-256 of vocabulary, normalisation and template, as hexadecimal digits."""
    max_length: int
    special_ids: tuple[int, ...]
    """Padding among them, sorted."""

    @classmethod
    def of(cls, tokenizer: Any, max_length: int, special_ids: frozenset[int]) -> TextEncoding:
        """The encoding of ``tokenizer`` at this length limit."""
        text = tokenizer_text(tokenizer).encode("utf-8", "surrogatepass")
        return cls(hashlib.sha256(text).hexdigest(), max_length, tuple(sorted(special_ids)))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> TextEncoding:
        """What :meth:`to_json` wrote."""
        return cls(str(stored["tokenizer"]), int(stored["max_length"]), tuple(int(i) for i in stored["special_ids"]))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        described: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return described


def check_same_encoding(release: TextEncoding | None, attack: TextEncoding) -> None:
    """Raise ModelError, with both values, where the two differ; a release that does not say (``None``) passes."""
    if release is None or release == attack:
        return
    told = [
        f"{name} {theirs} in the release, {ours} in the attack" for name, theirs, ours in differences(release, attack)
    ]
    raise ModelError(
        f"the release and the attack do not read texts alike: {'; '.join(told)}; "
        "give the attack the checkpoint and settings that the release was made with"
    )


def differences(one: TextEncoding, other: TextEncoding) -> list[tuple[str, str, str]]:
    """What differs, as (name, value in ``one``, value in ``other``)."""
    pairs = ((field.name, getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    return [(name, _short(a), _short(b)) for name, a, b in pairs if a != b]


def _short(value: object) -> str:
    return value[:12] if isinstance(value, str) else str(list(value)) if isinstance(value, tuple) else str(value)
