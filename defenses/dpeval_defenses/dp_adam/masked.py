"""A masked language model as a classifier: the encoder, the masked position, and its own head on the label words.

The head is the checkpoint's, used as transformers ships it: its forward pass gets the encoder's vector at the mask in
place of the encoder. Where its output table is tied to the input embeddings, it stays tied.

>>> tuple(_Through()(inputs_embeds=torch.zeros(2, 1, 3)).last_hidden_state.shape)
(2, 1, 3)
"""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dpeval.errors import ModelError
from dpeval.models.classifier import Pool, TextClassifier, forward_names
from dpeval.models.loading import quiet


class _Through(nn.Module):
    """Stands in a masked language model where its encoder was, and hands on the vectors it is given."""

    def forward(self, *_args: Any, inputs_embeds: Tensor, **_rest: Any) -> Any:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs_embeds)


class WordHead(nn.Module):
    """The head of a masked language model, restricted to the ids of some words; logits (B, words) of (B, d)."""

    def __init__(self, language_model: nn.Module, words: list[int]) -> None:
        super().__init__()
        self.lm = language_model
        self.out_features = len(words)
        self.register_buffer("words", torch.tensor(words), persistent=False)

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits of the words where the masked vectors are ``vectors``."""
        return _all_words(self.lm, vectors).index_select(1, self.get_buffer("words"))


def _all_words(language_model: nn.Module, vectors: Tensor) -> Tensor:
    """Logits (B, vocabulary) of the encoder's vectors (B, d) at the masks."""
    logits: Tensor = language_model(inputs_embeds=vectors.unsqueeze(1)).logits[:, 0]
    return logits


class MaskedClassifier(TextClassifier):
    """``encoder``, ``pool`` (the vector at the mask), ``head`` (a :class:`WordHead`); logits (B, classes).

    Each text must hold ``mask_id`` once.
    """

    def __init__(self, encoder: nn.Module, head: WordHead, mask_id: int) -> None:
        nn.Module.__init__(self)
        self.encoder = encoder
        self.pool = Pool("last")
        self.dropout = nn.Dropout(0.0)
        self.add_module("head", head)
        self.mask_id = mask_id
        self._extra = {"use_cache": False} if "use_cache" in forward_names(encoder) else {}

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.parameters()).device
        return device

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Logits (B, classes) of token ids (B, L); positions with mask 0 are padding."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, **types, **self._extra
        ).last_hidden_state
        vectors = self.pool(hidden, (input_ids == self.mask_id).long())
        logits: Tensor = self.head(self.dropout(vectors))
        return logits

    def own_head(self) -> dict[str, nn.Parameter]:
        """The head's parameters that it does not share with the encoder, by name in this model."""
        shared = set(self.encoder.parameters())
        return {f"head.{name}": p for name, p in self.head.named_parameters() if p not in shared}


def build_masked(encoder: nn.Module, public: PublicHead, words: list[int], mask_id: int) -> MaskedClassifier:
    """A classifier on ``encoder`` with a copy of the public head, tied to this encoder where the public one is tied."""
    table: Any = encoder.get_input_embeddings()  # type: ignore[operator]
    language_model = copy.deepcopy(public.language_model, {id(public.table): table.weight})
    return MaskedClassifier(encoder, WordHead(language_model, words), mask_id).eval()


class PublicHead:
    """A checkpoint's masked language model without its encoder, and the input table that it may be tied to.

    ModelError where the head needs more than the encoder's vector at a position, found by trying it.
    """

    def __init__(self, language_model: Any) -> None:
        self.table: nn.Parameter = language_model.get_input_embeddings().weight
        self.language_model: nn.Module = language_model
        ids = torch.arange(4).unsqueeze(0) % len(self.table)
        text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            expected = language_model(**text).logits[:, 2]
            vectors = language_model.base_model(**text).last_hidden_state[:, 2]
            setattr(language_model, language_model.base_model_prefix, _Through())
            if not torch.allclose(_tried(language_model, vectors), expected, rtol=1e-4, atol=1e-5):
                raise ModelError(
                    f"objective = 'infilling': the masked-LM head of {type(language_model).__name__} is no function of "
                    "one position's vector; use objective = 'head'"
                )


def _tried(language_model: nn.Module, vectors: Tensor) -> Tensor:
    try:
        return _all_words(language_model, vectors)
    except (AttributeError, TypeError):
        return torch.full((len(vectors), 1), torch.nan)


@lru_cache(maxsize=2)
def public_head(folder: Path, attention: str | None) -> PublicHead:
    """The masked-LM head of ``folder``; ModelError where the files hold none."""
    from transformers import AutoConfig, AutoModelForMaskedLM

    options: dict[str, Any] = {} if attention is None else {"attn_implementation": attention}
    wanted = f"{folder}: objective = 'infilling' needs a masked language model"
    settings = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if type(settings) not in AutoModelForMaskedLM._model_mapping:  # noqa: SLF001 - transformers has no public name for it
        raise ModelError(f"{wanted}; {settings.model_type!r} has no such form. Use objective = 'head'")
    # Weights that are missing from the files are drawn from the global generator, which is put back.
    with quiet(), torch.random.fork_rng(devices=[]):
        model, report = AutoModelForMaskedLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, output_loading_info=True,
            **options,
        )  # fmt: skip
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelError(
            f"{wanted}; its files have no head ({missing[0]} and {len(missing) - 1} more are missing). "
            "Use objective = 'head', or a checkpoint with its masked-LM head"
        )
    return PublicHead(model.eval())
