"""Causal language modelling on the target part: a loss for each text that no other text can change."""

from __future__ import annotations

import pytest
import torch
import transformers as hf

from dpeval_defenses.dp_adam import ClippedGradients, PoissonSampler, PrivateTrainer, SeededNoise, TrainSettings
from dpeval_defenses.dp_adam.causal import TargetTexts, causal_loss, target_loss

PROMPTS = [[3, 4, 5], [6, 7], [8, 9, 10, 11], [12]]
TARGETS = [[20, 21], [22, 23, 24, 25, 26], [27], [28, 29, 30]]


def texts() -> TargetTexts:
    return TargetTexts.of(PROMPTS, TARGETS, pad_id=0, end_id=1)


def gpt2(tied: bool = True) -> torch.nn.Module:
    config = hf.GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=16, bos_token_id=0, eos_token_id=1,
        tie_word_embeddings=tied, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return hf.GPT2LMHeadModel(config).eval()


def test_the_loss_of_a_text_is_its_own_mean_whatever_stands_beside_it() -> None:
    """Oracle: transformers' loss on the text alone, without padding; the batch's own mean is another number."""
    model, data = gpt2(), texts()
    batch = data.batch([0, 1, 2, 3])
    with torch.no_grad():
        together = target_loss(
            model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits, batch["labels"]
        )
        alone = torch.stack([model(**data.batch([i])).loss for i in range(4)])
        coupled = model(**batch).loss
    torch.testing.assert_close(together, alone)
    assert abs(float(coupled - alone.mean())) > 1e-4
    torch.testing.assert_close(causal_loss(model, data)(torch.arange(4).numpy()), alone)


def test_prompt_and_padding_are_no_targets() -> None:
    batch = texts().batch([0, 1])
    assert batch["labels"].tolist() == [[-100, -100, -100, 20, 21, 1, -100, -100], [-100, -100, 22, 23, 24, 25, 26, 1]]
    assert batch["attention_mask"].sum(1).tolist() == [6, 8]
    assert target_loss(torch.randn(1, 3, 5), torch.full((1, 3), -100)).tolist() == [0.0]


@pytest.mark.parametrize("tied", [True, False])
def test_one_text_changes_the_clipped_sum_by_at_most_the_norm(tied: bool) -> None:
    """Exact sensitivity: with and without each text, padding and all."""
    model, data, norm = gpt2(tied), texts(), 0.05

    def summed(rows: list[int]) -> torch.Tensor:
        clip = ClippedGradients(model, max_norm=norm)
        model.zero_grad()
        batch = data.batch(rows)
        labels = batch.pop("labels")
        clip.backward(target_loss(model(**batch).logits, labels))
        clip.detach()
        return torch.cat([p.grad.ravel().double() for p in model.parameters()])

    whole = summed([0, 1, 2, 3])
    for out in range(4):
        moved = float((whole - summed([i for i in range(4) if i != out])).norm())
        assert 0.04 < moved <= norm * (1 + 1e-4)


def test_a_private_run_learns_the_targets() -> None:
    model, data = gpt2(), texts()
    loss = causal_loss(model, data)
    settings = TrainSettings(steps=30, max_norm=1.0, noise_multiplier=0.01, learning_rate=0.01, micro_batch=3)
    trainer = PrivateTrainer(model, loss, PoissonSampler(4, 1.0, 1), SeededNoise(2), settings)
    before = float(loss(torch.arange(4).numpy()).detach().mean())
    for _ in range(30):
        trainer.step()
    trainer.close()
    assert float(loss(torch.arange(4).numpy()).detach().mean()) < before / 2


def test_texts_that_teach_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="text 1 has a prompt of 0 tokens"):
        TargetTexts.of([[1], []], [[2], [3]], pad_id=0)
    with pytest.raises(ValueError, match="text 0 has a prompt of 3 tokens and 3 tokens in all"):
        TargetTexts.of([[1, 2, 3]], [[4]], pad_id=0, max_length=3)
    with pytest.raises(ValueError, match="2 prompts but 1 targets"):
        TargetTexts.of([[1], [2]], [[2]], pad_id=0)
    with pytest.raises(ValueError, match="expected logits"):
        target_loss(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long))
