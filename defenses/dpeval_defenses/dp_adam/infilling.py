"""The objective ``infilling``: a checkpoint seen through a prompt, with the interface that training and releases need.

An infilling at work looks like this (not run here: it needs a checkpoint with a masked-LM head)::

    prompt = infilling(checkpoint, "{text} It was [MASK].", ("terrible", "great"))
    classifier = prompt.build(num_labels=2, seed=0)
    logits = classifier(**prompt.encode(records).batch([0, 1, 2]))

>>> swap([5, 103, 7], mask_id=103, instead=1)
[5, 1, 7]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dpeval.errors import ModelError
from dpeval.models.checkpoint import Checkpoint, encodable
from dpeval.models.config import ModelConfig
from dpeval.models.encoding import EncodedTexts
from dpeval.models.loading import length_limit
from dpeval.models.sources import find_checkpoint
from dpeval.types import Records, Text
from dpeval_defenses.dp_adam.masked import MaskedClassifier, PublicHead, build_masked, public_head
from dpeval_defenses.dp_adam.template import (
    MASK,
    Template,
    default_template,
    default_words,
    parse_template,
    uncapitalised,
    without_end,
)
from dpeval_defenses.dp_adam.wording import Frame, inner_ids, word_ids


@dataclass(frozen=True, eq=False)
class Infilling:
    """A checkpoint, a template and the words that stand for the classes. Make it with :func:`infilling`."""

    checkpoint: Checkpoint
    template: str
    label_words: tuple[str, ...]
    max_length: int
    """Longest prompt in tokens: the checkpoint's limit for the text, and the template's own tokens beside it."""
    _parsed: Template = field(repr=False)
    _literals: tuple[tuple[int, ...], ...] = field(repr=False)
    _frame: Frame = field(repr=False)
    _word_ids: tuple[int, ...] = field(repr=False)
    _head: PublicHead = field(repr=False)

    @property
    def config(self) -> ModelConfig:
        """Where the checkpoint's files are."""
        return self.checkpoint.config

    @property
    def hidden_size(self) -> int:
        """Width of the vector at the mask."""
        return self.checkpoint.hidden_size

    @property
    def is_pair(self) -> bool:
        """Whether the template takes two texts."""
        return self._parsed.is_pair

    def build(self, num_labels: int, seed: int) -> MaskedClassifier:
        """The public classifier, the same for every seed: nothing in it is new. ``num_labels`` is that of the words."""
        if num_labels != len(self.label_words):
            raise ValueError(
                f"label_words: expected one word for each of {num_labels} classes, got {len(self.label_words)}: "
                f"{', '.join(self.label_words)}"
            )
        encoder = self.checkpoint.build(1, seed).encoder
        return build_masked(encoder, self._head, list(self._word_ids), int(self.checkpoint.tokenizer.mask_token_id))

    def encode(self, records: Records) -> EncodedTexts:
        """The records as prompts; each holds the mask once."""
        ids = [self._prompt(text)[0] for text in records.texts]
        types = [[0] * len(row) for row in ids] if self.checkpoint.takes_types else None
        return EncodedTexts(ids=ids, types=types, pad_id=self.checkpoint.pad_id)

    def rows(self, text: str) -> list[int]:
        """Which rows of the prompt are the tokens that the text has without a template, special tokens included."""
        ids, (start, stop) = self._prompt(text)
        before, after = len(self._frame.before), len(self._frame.after)
        return [*range(before), *range(start, stop), *range(len(ids) - after, len(ids))]

    def _prompt(self, text: Text) -> tuple[list[int], tuple[int, int]]:
        """Ids of the prompt, and where in it the (first) text stands."""
        fields = self._fields(text)
        ids, at = list(self._frame.before), (0, 0)
        for piece, literal in zip(self._parsed.pieces, self._literals, strict=True):
            name = piece.strip()
            if name in ("{text}", "{first}"):
                at = (len(ids), len(ids) + len(fields[name]))
            ids += fields[name] if name in fields else list(literal)
        return [*ids, *self._frame.after], at

    def _fields(self, text: Text) -> dict[str, list[int]]:
        if isinstance(text, str) == self.is_pair:
            got = "a single text" if isinstance(text, str) else "a pair"
            raise ValueError(
                f"template {self.template!r}: expected {'pairs' if self.is_pair else 'single texts'}, got {got}"
            )
        if isinstance(text, str):
            return {"{text}": self._plain(text, None)[0]}
        kept = self._plain(*text)
        halves = (("{first}", without_end(text[0])), ("{second}", uncapitalised(text[1])))
        return {name: self._half(name, half)[: len(whole)] for (name, half), whole in zip(halves, kept, strict=True)}

    def _half(self, name: str, text: str) -> list[int]:
        at = next(i for i, piece in enumerate(self._parsed.pieces) if piece.strip() == name)
        spaced = self._parsed.pieces[at].startswith(" ")
        return self._masked_out(inner_ids(self.checkpoint.tokenizer, " " * spaced + encodable(text), follows=at > 0))

    def _plain(self, first: str, second: str | None) -> tuple[list[int], list[int]]:
        """The tokens of each text as the checkpoint takes them, truncated, without special tokens."""
        texts = (encodable(first), None if second is None else encodable(second))
        out = self.checkpoint.tokenizer(*texts, truncation=True, max_length=self.checkpoint.max_length, verbose=False)
        of = [[t for t, s in zip(out["input_ids"], out.sequence_ids(), strict=True) if s == n] for n in (0, 1)]
        return self._masked_out(of[0]), self._masked_out(of[1])

    def _masked_out(self, ids: Sequence[int]) -> list[int]:
        tokenizer = self.checkpoint.tokenizer
        unknown = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else self.checkpoint.pad_id
        return swap(ids, mask_id=int(tokenizer.mask_token_id), instead=int(unknown))


def swap(ids: Sequence[int], *, mask_id: int, instead: int) -> list[int]:
    """``ids`` with ``instead`` for the mask: a text that spells out the mask must not move the place of the answer."""
    return [instead if i == mask_id else int(i) for i in ids]


@lru_cache(maxsize=8)
def infilling(checkpoint: Checkpoint, template: str, label_words: tuple[str, ...]) -> Infilling:
    """The infilling objective on ``checkpoint``; ModelError or ValueError says what does not fit, and what to do."""
    parsed, tokenizer = parse_template(template), checkpoint.tokenizer
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise ModelError("objective = 'infilling': the tokenizer has no mask token; use objective = 'head'")
    head = public_head(find_checkpoint(checkpoint.config.source, checkpoint.base), checkpoint.config.attention)
    literals = tuple(tuple(_literal(tokenizer, piece, follows=i > 0)) for i, piece in enumerate(parsed.pieces))
    spaced = any(piece == f" {MASK}" for piece in parsed.pieces)
    return Infilling(
        checkpoint=checkpoint, template=template, label_words=label_words,
        max_length=_room(checkpoint, sum(map(len, literals))), _parsed=parsed, _literals=literals,
        _frame=Frame.of(tokenizer), _word_ids=tuple(word_ids(tokenizer, label_words, spaced=spaced)), _head=head,
    )  # fmt: skip


def _literal(tokenizer: Any, piece: str, *, follows: bool) -> list[int]:
    if piece.strip() == MASK:
        return [int(tokenizer.mask_token_id)]
    return [] if piece.strip().startswith("{") else inner_ids(tokenizer, piece, follows=follows)


def _room(checkpoint: Checkpoint, own: int) -> int:
    encoder = checkpoint.build(1, 0).encoder
    limit, reason = length_limit(encoder, checkpoint.tokenizer)
    if checkpoint.max_length + own > limit:
        raise ModelError(
            f"template: its {own} tokens and texts of {checkpoint.max_length} exceed {limit} ({reason}); "
            f"set max_length to at most {limit - own}"
        )
    return checkpoint.max_length + own


def infilling_for(
    checkpoint: Checkpoint, records: Records, num_labels: int, template: str | None, words: tuple[str, ...]
) -> Infilling:
    """The infilling objective for these records, with the paper's template and words where none are given."""
    pair = bool(records.texts) and not isinstance(records.texts[0], str)
    chosen = default_template(pair=pair) if template is None else template
    if parse_template(chosen).is_pair != pair:
        wanted = "pairs ({first}, {second})" if pair else "single texts ({text})"
        raise ValueError(f"template: the records are {wanted}, got {chosen!r}")
    named = words or default_words(pair=pair, num_labels=num_labels)
    if len(named) != num_labels:
        raise ValueError(
            f"label_words: expected one word for each of {num_labels} classes, got {len(named)}: {', '.join(named)}"
        )
    return infilling(checkpoint, chosen, named)


def some_infilling(checkpoint: Checkpoint, template: str | None, words: tuple[str, ...]) -> Infilling:
    """The objective for records not seen yet: where template or words are not given, those of two classes."""
    chosen = default_template(pair=False) if template is None else template
    named = words or default_words(pair=parse_template(chosen).is_pair, num_labels=2)
    return infilling(checkpoint, chosen, named)
