"""Does one job: train or fetch the release, ask it for predictions, let each attack try, audit a local claim.

Every finished stage is stored at once. A stage that raises fails alone: what does not depend on it goes on.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpeval import jobs, seeds
from dpeval.arrays import save_arrays, save_result
from dpeval.context import Report, RunContext, silent
from dpeval.cost import measured
from dpeval.errors import DpevalError, StoreError
from dpeval.identity import key_of, plugin_identity
from dpeval.jobs import Bench, Job, JobReport, Trial, as_attack, as_defense
from dpeval.local_audit import audit_identity, audit_local_claim, auditable_tap
from dpeval.models.checkpoint import Checkpoint, load_checkpoint
from dpeval.models.claim_json import claim_from_json, claim_to_json
from dpeval.models.config import ModelConfig
from dpeval.plugin import (
    AttributeAttack,
    ExtractionAttack,
    InversionAttack,
    Knowledge,
    MembershipAttack,
    Release,
    Task,
)
from dpeval.scratch import remove_scratch, scratch_folder
from dpeval.shadows import Shelf
from dpeval.store import Entry, Store
from dpeval.types import AttackResult, Failed, PrivacyClaim, Records
from dpeval.views import Memo, embeddings_of, predictions_of

log = logging.getLogger(__name__)


class ShadowError(DpevalError):
    """An attack needs shadow releases, and one could not be trained."""


class NotCached(Exception):  # noqa: N818 - a state, not a fault
    """Work would be needed, and the run was told to use only what is stored."""


@dataclass
class Progress:
    """What a job has produced so far."""

    entries: dict[str, Path] = field(default_factory=dict)
    failures: dict[str, Failed] = field(default_factory=dict)
    made: int = 0
    reused: int = 0


def run_job(job: Job, bench: Bench, report: Report = silent) -> JobReport:
    """Do ``job``; raises StoreError when results cannot be written, and for no fault of a plug-in, model or stage."""
    worker = _Worker(job, bench, report)
    worker.run()
    done = worker.progress
    return JobReport(job, done.entries, done.failures, done.made, done.reused)


class _Worker:
    """The state of one job while it runs."""

    def __init__(self, job: Job, bench: Bench, report: Report) -> None:
        self.job, self.bench, self.report = job, bench, report
        self.store = Store(bench.store)
        self.progress = Progress()
        self.checkpoint: Checkpoint
        self.identity: dict[str, Any] = {}
        self.shelf = Shelf([s.split.trained for s in job.shadows], self._shadow, pools(job))

    def run(self) -> None:
        entry = self._attempt("release", self._trained)
        if self.job.shadow or entry is None:
            return
        release = self._attempt("release", lambda: load_release(entry, torch.device(self.bench.device)))
        if release is None:
            return
        memo = Memo(release, pools(self.job))
        if self.job.measured:
            self._attempt("train", lambda: self._predictions("train", memo, self.job.split.members))
            self._attempt("test", lambda: self._predictions("test", memo, self.job.split.test))
        for trial in self.job.trials:
            self._attempt(trial.name, lambda trial=trial: self._trial(trial, memo))  # type: ignore[misc]
        memo.forget()
        self.shelf.forget()
        if self.job.audit and auditable_tap(release) is not None:
            self._attempt("audit", lambda: self._audit(release))

    def _attempt(self, name: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except StoreError:
            raise  # a full disk ends the run: going on would lose work cell by cell
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.debug("%s: %s failed", self.job.name, name, exc_info=True)
            message = (
                "not in the store (--only-cached)"
                if isinstance(error, NotCached)
                else f"{type(error).__name__}: {error}"
            )
            self.progress.failures[name] = Failed(message, f"{where.filename}:{where.lineno}")
            return None

    def _stored(self, name: str, stage: str, identity: dict[str, Any], write: Callable[[Path], None]) -> Entry:
        entry = self.store.get(stage, identity)
        if entry is None:
            if self.bench.only_cached:
                raise NotCached
            entry = self.store.put(stage, identity, write)
            self.progress.made += 1
        else:
            self.progress.reused += 1
        self.progress.entries[name] = entry.folder
        return entry

    # --- stages ---

    def _trained(self) -> Entry:
        self.checkpoint = checkpoint_for(self.bench.models[self.job.model], self.bench.base)
        self.identity = jobs.release_identity(self.job, self.checkpoint.fingerprint)
        entry = self._stored("release", "release", self.identity, lambda folder: self._train(self.job, folder))
        remove_scratch(self.bench.store, entry.key)
        return entry

    def _shadow(self, number: int) -> Callable[[], Release]:
        """How to open a shadow release. It was trained before this job, unless that failed or was not asked for."""
        job = self.job.shadows[number]
        identity = jobs.release_identity(job, self.checkpoint.fingerprint)
        entry = self.store.get("release", identity)
        if entry is None and job.key in self.bench.failed_shadows:
            raise ShadowError(f"shadow release {number + 1} failed: {self.bench.failed_shadows[job.key]}")
        if entry is None and self.bench.only_cached:
            raise NotCached
        found = entry or self.store.put("release", identity, lambda folder: self._train(job, folder))
        remove_scratch(self.bench.store, found.key)
        return lambda: load_release(found, torch.device(self.bench.device))

    def _train(self, job: Job, folder: Path) -> None:
        defense = as_defense(job.defense)
        task = Task(train=job.split.trained, num_labels=job.num_labels, checkpoint=self.checkpoint)
        identity = jobs.release_identity(job, self.checkpoint.fingerprint)
        key = key_of(identity)
        with scratch_folder(self.bench.store, key) as scratch, measured() as meter:
            seed = seeds.derive(job.seed, "release", key)
            release = defense.train(task, RunContext(seed, self.bench.device, self.report, scratch))
        (folder / "model").mkdir()
        release.save(folder / "model")
        cost = meter.cost(int(getattr(release, "trained_parameters", 0)))
        about = {"class": f"{type(release).__module__}:{type(release).__qualname__}", "cost": dataclasses.asdict(cost)}
        about["claim"] = claim_to_json(release.claim)
        about["diagnostics"] = {k: float(v) for k, v in dict(getattr(release, "diagnostics", {})).items()}
        (folder / "release.json").write_text(json.dumps(about), encoding="utf-8")

    def _predictions(self, name: str, memo: Memo, records: Records) -> None:
        def write(folder: Path) -> None:
            predicted = memo.predict(records, 0)
            save_arrays(
                folder, ids=np.array(predicted.ids), log_probs=predicted.log_probs, labels=np.array(records.labels)
            )

        self._stored(name, "predict", jobs.predict_identity(records, self.identity), write)

    def _trial(self, trial: Trial, memo: Memo) -> None:
        def write(folder: Path) -> None:
            with measured() as meter:
                result = self._attack(trial, memo)
            save_result(folder, result, seconds=meter.cost().seconds)

        self._stored(trial.name, "attack", jobs.trial_identity(self.job, trial, self.identity), write)

    def _attack(self, trial: Trial, memo: Memo) -> AttackResult:
        attack = as_attack(trial.attack)
        ctx = dataclasses.replace(
            self._context("attack", key_of(plugin_identity(attack)), trial.tap or "", trial.role),
            shadow_source=lambda count: self.shelf.shadows(count, attack.shadows),
        )
        knowledge = Knowledge(
            checkpoint=self.checkpoint,
            defense=as_defense(self.job.defense),
            auxiliary=self.job.split.auxiliary,
            num_labels=self.job.num_labels,
            num_attribute_values=self.job.num_attribute_values,
            claim=memo.claim,
        )
        if isinstance(attack, (MembershipAttack, ExtractionAttack)):
            candidates = self._candidates(trial)
            ask = attack.score if isinstance(attack, MembershipAttack) else attack.extract
            return _answered(ask(predictions_of(memo), candidates, knowledge, ctx), candidates.ids, trial)
        targets = jobs.targets_of(self.job, trial)
        order = self._permutation(len(targets)) if trial.role == "negative" else None
        view = embeddings_of(memo, targets, trial.tap or "", order)
        if isinstance(attack, InversionAttack):
            return _answered(attack.recover(view, targets.ids, knowledge, ctx), targets.ids, trial)
        if isinstance(attack, AttributeAttack):
            return _answered(attack.infer(view, targets.ids, knowledge, ctx), targets.ids, trial)
        raise TypeError(f"{trial.attack.label}: not one of the attack bases of dpeval.plugin")

    def _audit(self, release: Release) -> None:
        identity = audit_identity(self.identity, release, self.job.split.auxiliary)
        pool, tokens = self.job.split.auxiliary, self.checkpoint.tokens
        self._stored("audit", "audit", identity, lambda folder: audit_local_claim(release, pool, folder, tokens))

    # --- parts ---

    def _context(self, *names: str) -> RunContext:
        return RunContext(seeds.derive(self.job.seed, *names), self.bench.device, self.report)

    def _candidates(self, trial: Trial) -> Records:
        """Members and non-members, shuffled, without attributes or groups: nothing tells them apart."""
        both = jobs.candidates_of(self.job, trial)
        order = seeds.rng(self.job.seed, "candidates").permutation(len(both))
        mixed = both.take(int(i) for i in order)
        return Records(mixed.ids, mixed.texts, mixed.labels)

    def _permutation(self, n: int) -> np.ndarray:
        """A cyclic shift of a random order: nobody keeps their own rows."""
        order = seeds.rng(self.job.seed, "negative control").permutation(n)
        shifted = np.empty(n, dtype=np.int64)
        shifted[order] = np.roll(order, 1)
        return shifted


def pools(job: Job) -> list[Records]:
    """The sets of records that a release is asked about as a whole; see :class:`dpeval.views.Memo`."""
    parts = job.split
    with_attribute = (i for i, value in enumerate(parts.auxiliary.attributes) if value is not None)
    published = [t for t in job.trials if jobs.is_published_protocol(as_attack(t.attack))]
    return [
        parts.members + parts.nonmembers,
        *(jobs.candidates_of(job, trial) for trial in published[:1]),
        parts.planted + parts.withheld,
        parts.test,
        parts.auxiliary,
        parts.auxiliary.take(with_attribute),
        job.inversion_targets,
        job.attribute_targets,
    ]


def _answered(result: AttackResult, ids: tuple[str, ...], trial: Trial) -> AttackResult:
    if set(result.ids) != set(ids) or len(result.ids) != len(ids):
        raise ValueError(
            f"{trial.attack.label}: expected one answer for each of the {len(ids)} records asked about, got "
            f"{len(result.ids)} answers, {len(set(result.ids) & set(ids))} of them about these records; "
            "return each id once"
        )
    return result


@lru_cache(maxsize=4)
def checkpoint_for(config: ModelConfig, base: Path) -> Checkpoint:
    """A checkpoint, loaded once in each process."""
    return load_checkpoint(config, base)


def load_release(entry: Entry, device: torch.device) -> Release:
    """The release of a stored entry."""
    module_name, _, name = str(entry.json("release.json")["class"]).partition(":")
    found: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
    for part in name.split("."):
        found = getattr(found, part)
    release: Release = found.load(entry.file("model"), device)
    return release


def stored_claim(folder: Path) -> PrivacyClaim:
    """The claim that a stored release states."""
    return claim_from_json(json.loads((folder / "release.json").read_text(encoding="utf-8"))["claim"])
