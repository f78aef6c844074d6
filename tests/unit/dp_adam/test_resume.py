"""A run that is interrupted and resumed is the unbroken run, to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from dpeval.context import RunContext
from dpeval.plugin import Task
from dpeval_defenses.dp_adam import DPAdam, PrivateTrainer, resume
from dpeval_defenses.dp_adam.noise import SecureNoise


def weights(trainer) -> list[torch.Tensor]:
    return [p.detach().clone() for p in trainer.trained.values()]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_resumed_run_equals_the_unbroken_one(problem, tmp_path: Path, optimizer: str, stop: int) -> None:
    """Weights, log and the number of steps that the accountant gets."""
    unbroken = problem().trainer(optimizer=optimizer)
    for _ in range(6):
        unbroken.step()
    first = problem().trainer(optimizer=optimizer)
    for _ in range(stop):
        first.step()
    resume.save(first, tmp_path / "at")
    second = problem().trainer(optimizer=optimizer)
    resume.restore(second, tmp_path / "at")
    assert second.steps_taken == stop
    for _ in range(6 - stop):
        second.step()
    assert all(torch.equal(a, b) for a, b in zip(weights(unbroken), weights(second), strict=True))
    assert second.log == unbroken.log
    assert second.steps_taken == 6


@pytest.mark.parametrize(("accountant", "epsilon"), [("rdp", 4.224), ("pld", 3.591)])
def test_a_run_killed_at_step_ten_of_twenty_ends_with_the_epsilon_of_twenty(
    problem, tmp_path: Path, accountant: str, epsilon: float
) -> None:
    """Rate 0.1, noise 1, δ = 1e-5: killed in step 15, resumed from step 10, the same weights and the full ε."""
    common = {"n": 40}
    unbroken = problem(**common).trainer(rate=0.1, steps=20)
    resume.run_to_end(unbroken, tmp_path / "unbroken")
    p = problem(**common)
    killed = p.trainer(rate=0.1, steps=20)
    killed._loss = lambda at: 1 / 0 if killed.steps_taken == 14 else p.loss(at)
    with pytest.raises(ZeroDivisionError):
        resume.run_to_end(killed, tmp_path / "at")
    again = problem(**common).trainer(rate=0.1, steps=20)
    resume.run_to_end(again, tmp_path / "at")
    assert all(torch.equal(a, b) for a, b in zip(weights(unbroken), weights(again), strict=True))
    accounting = DPAdam(noise_multiplier=1.0, delta=1e-5, batch_size=4, steps=20, accountant=accountant).accounting
    claim = accounting.claim(accounting.plan(40), steps_taken=again.steps_taken, trained=4, repeatable=True)
    assert claim.epsilon == pytest.approx(epsilon, rel=2e-3)
    assert dict(claim.details)["sampling rate"] == again.sampler.rate


def test_a_run_killed_between_two_micro_batches_repeats_the_whole_step(problem, tmp_path: Path) -> None:
    """Half a sum is never saved: the step is drawn, clipped and noised again, as it would have been."""
    unbroken = problem().trainer(micro_batch=2, rate=0.5)
    resume.run_to_end(unbroken, tmp_path / "unbroken", every=1)
    p, calls = problem(), []
    killed = p.trainer(micro_batch=2, rate=0.5)

    def loss(at):
        calls.append(killed.steps_taken)
        return 1 / 0 if calls.count(3) == 3 else p.loss(at)

    killed._loss = loss
    with pytest.raises(ZeroDivisionError):
        resume.run_to_end(killed, tmp_path / "at", every=1)
    again = problem().trainer(micro_batch=2, rate=0.5)
    resume.restore(again, tmp_path / "at")
    assert again.steps_taken == 3
    resume.run_to_end(again, tmp_path / "at", every=1)
    assert all(torch.equal(a, b) for a, b in zip(weights(unbroken), weights(again), strict=True))
    assert again.log == unbroken.log


def test_checkpoints_come_rarely_unless_asked_for(problem, tmp_path: Path) -> None:
    """A training of milliseconds saves nothing; the end is the same."""
    resume.run_to_end(problem().trainer(), tmp_path / "at")
    assert not resume.found(tmp_path / "at")


def test_steps_after_a_resume_have_noise_of_their_own(problem, tmp_path: Path) -> None:
    """Steps 3 and 4 after a stop do not repeat the noise of steps 1 and 2."""
    p = problem()
    trainer = p.trainer(rate=1e-9, optimizer="sgd", schedule="constant")
    moves = []
    for _ in range(2):
        before = torch.cat([w.ravel() for w in weights(trainer)])
        trainer.step()
        moves.append(torch.cat([w.ravel() for w in weights(trainer)]) - before)
    resume.save(trainer, tmp_path / "at")
    again = problem().trainer(rate=1e-9, optimizer="sgd", schedule="constant")
    resume.restore(again, tmp_path / "at")
    for _ in range(2):
        before = torch.cat([w.ravel() for w in weights(again)])
        again.step()
        moves.append(torch.cat([w.ravel() for w in weights(again)]) - before)
    assert not any(torch.allclose(moves[i], moves[j]) for i in range(4) for j in range(i))


def test_a_newer_checkpoint_replaces_the_older_and_a_half_written_one_is_never_read(problem, tmp_path: Path) -> None:
    trainer = problem().trainer()
    trainer.step()
    resume.save(trainer, tmp_path / "at")
    trainer.step()
    (tmp_path / ".at.part").mkdir()
    (tmp_path / ".at.part" / "state.json").write_text("{")
    resume.save(trainer, tmp_path / "at")
    assert json.loads((tmp_path / "at" / "state.json").read_text(encoding="utf-8"))["log"][-1]["step"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at"]


def test_a_stop_between_the_two_renames_loses_nothing(problem, tmp_path: Path) -> None:
    trainer = problem().trainer()
    trainer.step()
    resume.save(trainer, tmp_path / "at")
    (tmp_path / "at").rename(tmp_path / ".at.old")
    again = problem().trainer()
    resume.restore(again, tmp_path / "at")
    assert again.steps_taken == 1
    trainer.step()
    resume.save(trainer, tmp_path / "at")
    resume.restore(again, tmp_path / "at")
    assert again.steps_taken == 2


@pytest.mark.parametrize(
    ("change", "named"),
    [({"rate": 0.2}, "rate"), ({"entropy": 6}, "streams"), ({"noise_multiplier": 0.5}, "settings"),
     ({"noise": SecureNoise()}, "streams")],
)  # fmt: skip
def test_a_resume_with_other_settings_is_refused(
    problem, tmp_path: Path, change: dict[str, object], named: str
) -> None:
    """Another rate, seed or noise would make the claim describe a run that never happened."""
    trainer = problem().trainer()
    trainer.step()
    resume.save(trainer, tmp_path / "at")
    with pytest.raises(ValueError, match=f"its {named} is"):
        resume.restore(problem().trainer(**change), tmp_path / "at")


def test_a_secure_run_resumes_with_its_steps_counted(problem, tmp_path: Path) -> None:
    trainer = problem().trainer(noise=SecureNoise())
    trainer.step()
    resume.save(trainer, tmp_path / "at")
    again = problem().trainer(noise=SecureNoise())
    resume.restore(again, tmp_path / "at")
    again.step()
    assert again.steps_taken == 2


def test_the_checkpoint_does_not_hold_the_seeds(problem, tmp_path: Path) -> None:
    """Whoever has the noise's seed can take the noise off."""
    trainer = problem().trainer(entropy=918273645546372819)
    trainer.step()
    resume.save(trainer, tmp_path / "at")
    assert "9182736455463728" not in (tmp_path / "at" / "state.json").read_text(encoding="utf-8")


def test_no_checkpoint_is_said(problem, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        resume.restore(problem().trainer(), tmp_path / "none")


def _with_scratch(tiny, folder: Path | None) -> tuple[DPAdam, Task, RunContext]:
    defense = DPAdam(adapt="head", noise_multiplier=1.0, delta=1e-5, steps=6, batch_size=20, accountant="rdp")
    return defense, Task(tiny.records, 2, tiny.checkpoint), RunContext(4, scratch=folder)


@pytest.mark.parametrize("harm", ["none", "damaged", "other settings"])
def test_the_defense_goes_on_from_its_scratch_folder_or_says_why_not(
    tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    """Stopped in step 4, asked again: the weights, log and claim of an unbroken run, whatever the checkpoint is."""
    defense, task, ctx = _with_scratch(tiny, tmp_path)
    monkeypatch.setattr(resume._Pace, "due", lambda _: True)
    step = PrivateTrainer.step
    with monkeypatch.context() as stop:
        stop.setattr(PrivateTrainer, "step", lambda self: 1 / 0 if self.steps_taken == 3 else step(self))
        with pytest.raises(ZeroDivisionError):
            defense.train(task, ctx)
    if harm == "damaged":
        (tmp_path / "dp-adam" / "state.safetensors").write_bytes(b"half")
    if harm == "other settings":
        state = json.loads((tmp_path / "dp-adam" / "state.json").read_text(encoding="utf-8")) | {"format": 0}
        (tmp_path / "dp-adam" / "state.json").write_text(json.dumps(state), encoding="utf-8")
    taken: list[int] = []
    monkeypatch.setattr(PrivateTrainer, "step", lambda self: (taken.append(self.steps_taken), step(self))[1])
    resumed = defense.train(task, ctx)
    assert taken == ([3, 4, 5] if harm == "none" else [0, 1, 2, 3, 4, 5])
    assert ("the training starts anew" in caplog.text) == (harm != "none")
    unbroken = defense.train(task, _with_scratch(tiny, None)[2])
    assert torch.equal(resumed.classifier.head.weight, unbroken.classifier.head.weight)
    assert resumed.log == unbroken.log
    assert resumed.claim == unbroken.claim
