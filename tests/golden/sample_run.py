"""A run made by hand that holds everything a report must be able to show: every status, ruling and kind of claim."""

from __future__ import annotations

import dataclasses
import math

from dpeval.results import (
    AttackSummary,
    BlindResult,
    CellResult,
    ControlResult,
    DataSummary,
    DefenseResult,
    ModelSummary,
    PairedResult,
    Provenance,
    RecordRisk,
    Ruling,
    RunResult,
    Status,
    Verdict,
)
from dpeval.types import Adjacency, Claim, Cost, Estimate, NoClaim, Note, Trust, Undefined, Unit

DATA, SMALL, MODEL = "films | fresh\nrotten", "אבג small 😀", "org/mini_lm"
WEIRD = "- # `rounding`|<b>half</b> \\ _x_"


def build(status: str = "partial") -> RunResult:
    """The run, with the given status."""
    return RunResult(
        name="everything at once",
        status=status,
        note="made by hand; *no* model was trained",
        data=(films(), small()),
        models=(model(),),
        defenses=defenses(),
        cells=(*film_cells(), *small_cells()),
        controls=controls(),
        blind=blind(),
        utility_baseline={DATA: 0.522, SMALL: 0.5},
        provenance=provenance(),
        attacks=attacks(),
        comparisons=9,
        paired=paired(),
    )


def films() -> DataSummary:
    notes = (
        Note("empty text dropped", 3, ("row:7", "row:9", "row|11")),
        Note("exact duplicate kept in one group", 41, tuple(f"row:{i}" for i in range(20))),
    )
    return DataSummary(
        name=DATA, fingerprint="a1" * 32, records=12808, roles={"members": 1050, "non-members": 1050,
        "auxiliary": 6000, "test": 4708},
        ranges={"members": (1031, 1066), "non-members": (1034, 1069), "auxiliary": (6000, 6000), "test": (4708, 4708)},
        labels={"fresh": 6400, "rotten": 6408}, attribute="film", attribute_values=20, attribute_records=700,
        notes=notes,
    )  # fmt: skip


def small() -> DataSummary:
    return DataSummary(
        name=SMALL, fingerprint="b2" * 32, records=90, roles={"members": 30, "non-members": 0, "auxiliary": 40,
        "test": 20},
        labels={"été": 45, "": 45},
    )  # fmt: skip


def model() -> ModelSummary:
    return ModelSummary(
        name=MODEL, fingerprint="c3" * 32, parameters=22_713_216, max_length=64, pooling="mean",
        notes=("7 texts were cut at 64 tokens", "a classification head was added"),
    )  # fmt: skip


def estimate(value: float, half: float, n: int = 2100, models: int = 3) -> Estimate:
    return Estimate(value, value - half, value + half, n=n, models=models)


def defense(label: str, use: str, accuracy: float, **more: object) -> DefenseResult:
    fields: dict[str, object] = {
        "label": label, "use": use, "data": DATA, "model": MODEL, "source": "a paper", "settings": {},
        "status": Status.OK,
        "claim": NoClaim(), "verdict": Verdict(ruling=Ruling.NO_CLAIM, reading="Nothing is claimed."),
        "utility": estimate(accuracy, 0.02, 4708), "train_accuracy": estimate(min(accuracy + 0.1, 0.97), 0.01, 1050),
        "cost": Cost(74.2, 141.5, 812 * 2**20, 22_713_986),
    }  # fmt: skip
    return DefenseResult(**(fields | more))  # type: ignore[arg-type]


def central(epsilon: float, delta: float = 1e-5) -> Claim:
    return Claim(
        epsilon=epsilon, delta=delta, unit=Unit.RECORD, trust=Trust.CENTRAL, adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        mechanism="sampled Gaussian", accountant="PLD", sampling="Poisson", scope="The trained weights.",
        excludes=("choice of settings",), details=(("σ", 0.83), ("q", 0.24), ("steps", 40)),
    )  # fmt: skip


def local(epsilon: float) -> Claim:
    return Claim(
        epsilon=epsilon, delta=1e-5, unit=Unit.SEQUENCE, trust=Trust.LOCAL, adjacency=Adjacency.ANY_TWO_INPUTS,
        mechanism="analytic Gaussian", accountant="analytic", scope="The released tensor at encoder.2.add_norm_2.",
        details=(("σ", 1.2), ("releases", 1)),
    )  # fmt: skip


def verdict(ruling: Ruling, reading: str, bound: float | None = None, limit: float | None = None) -> Verdict:
    able = None if limit is None else math.inf if ruling is Ruling.UNTESTABLE else limit - 1.3
    return Verdict(
        ruling=ruling, reading=reading, bound=bound, ceiling=limit, smallest_refutable=able, method="one-run audit"
    )


def defenses() -> tuple[DefenseResult, ...]:
    return (
        defense("none", "none", 0.75),
        defense(
            "dp-adam epsilon=1", "dp-adam", 0.58, claim=central(1, 1e-3), settings={"epsilon": 1.0, "layers": (4, 5),
            "lora": None},
            verdict=verdict(Ruling.REFUTED, "The audit found more than was claimed.", 1.7, 4.2),
            dominated_by="dp-adam epsilon=8",
            warnings=("untuned: default learning rate",), diagnostics={"mean clip factor": 0.31},
        ),
        defense(
            "dp-adam epsilon=8", "dp-adam", 0.74, claim=central(8), settings={"epsilon": 8.0},
            verdict=verdict(Ruling.UNTESTABLE, "Even a perfect attack could not have refuted this claim here.", 0.1,
            4.2),
        ),
        defense(
            "dp-forward position=encoder.2.add_norm_2", "dp-forward", 0.53, claim=local(8),
            verdict=verdict(Ruling.CONSISTENT, "Repeated queries told the inputs apart no better than ε = 8 allows.",
            3.4, 9.5),
        ),
        defense(WEIRD, "my.py:Rounding", 0.74, source="see <https://example.org/a|b>"),
        defense(
            "exploding", "exploding", 0.5, status=Status.FAILED,
            reason="RuntimeError: out of memory\n  at step 3 | layer 2",
            utility=Undefined("not trained"), train_accuracy=Undefined("not trained"), cost=None,
        ),
        defense("none", "none", 0.55, data=SMALL, utility=estimate(0.55, 0.22, 20), train_accuracy=estimate(0.9, 0.1,
        30)),
    )  # fmt: skip


def cell(label: str, attack: str, status: Status = Status.OK, **more: object) -> CellResult:
    goal = {"mia": "membership", "inv": "inversion", "att": "attribute"}[attack[:3]]
    tap = None if goal == "membership" else "output"
    fields: dict[str, object] = {
        "defense": label, "attack": attack, "goal": goal, "tap": tap, "data": DATA, "model": MODEL, "status": status,
    }  # fmt: skip
    return CellResult(**(fields | more))  # type: ignore[arg-type]


def membership(label: str, auc: float, differs: str, **more: object) -> CellResult:
    measures = {
        "auc": estimate(auc, 0.024), "balanced_accuracy": estimate(auc - 0.02, 0.02, 1050),
        "tpr@1%fpr": estimate(0.02, 0.015),
        "tpr@0.1%fpr": Undefined("too few non-members (1050): 2995 needed for a false positive rate of 0.1%"),
        "auc_minus_blind": estimate(auc - 0.503, 0.03), "detectable_auc": estimate(0.534, 0.0),
    }  # fmt: skip
    fields: dict[str, object] = {
        "measures": measures, "headline": "auc", "null": 0.5, "p_value": 0.3 if differs == "no" else 1e-9,
        "seconds": 1.24,
        "p_holm": 1.0 if differs == "no" else 9e-9, "distinguishable": differs, "reading": "What this number means.",
    }  # fmt: skip
    return cell(label, "mia-threshold signal=loss", **(fields | more))  # type: ignore[arg-type]


def inversion(label: str, f1: float, differs: str, **more: object) -> CellResult:
    fields: dict[str, object] = {
        "measures": {"f1": estimate(f1, 0.03, 500), "baseline_f1": estimate(0.062, 0.004, 500),
        "content_f1": estimate(f1, 0.05, 490)},
        "headline": "f1", "null": 0.062, "p_value": 0.0004, "p_holm": 0.0028, "distinguishable": differs,
        "reading": "Tokens of the text that were recovered.",
    }  # fmt: skip
    return cell(label, "invert-nearest", **(fields | more))  # type: ignore[arg-type]


def film_cells() -> tuple[CellResult, ...]:
    exposed = ("row:17", "row|3", "<i>", *(f"row:{i}" for i in range(100, 130)))
    risks = (RecordRisk(id="row:1", excess=4.31, p=0.0019, models=3), RecordRisk(id="r|2", excess=3.9, p=0.2, models=1))
    return (
        membership("none", 0.74, "yes", exposed=exposed, roc=((0.001, 0.004), (0.01, 0.02), (0.1, 0.3), (1.0, 1.0))),
        membership(
            "dp-adam epsilon=1", 0.71, "yes", warnings=("significantly more than claimed",),
            exposed=tuple(r.id for r in risks), risks=risks,
        ),
        membership("dp-adam epsilon=8", 0.512, "no"),
        membership("dp-forward position=encoder.2.add_norm_2", 0.508, "no"),
        membership(WEIRD, 0.44, "yes"),
        cell("exploding", "mia-threshold signal=loss", Status.FAILED, reason="the release was not trained"),
        inversion("none", 0.81, "yes"),
        inversion("dp-adam epsilon=1", 0.8, "yes"),
        inversion("dp-adam epsilon=8", 0.79, "yes"),
        cell("dp-forward position=encoder.2.add_norm_2", "invert-nearest", Status.UNFIT,
        reason="it releases at its own tap only"),
        inversion(WEIRD, 0.31, "yes"),
        attribute("none", Status.NOT_VALIDATED,
        "the positive control reached 0.08 [0.05, 0.11], no more than guessing"),
        attribute("dp-adam epsilon=8", Status.OK, ""),
    )  # fmt: skip


def attribute(label: str, status: Status, reason: str) -> CellResult:
    measures = {"gain_accuracy": estimate(0.02, 0.06, 120, 1), "memorisation_excess": estimate(0.01, 0.05, 120, 1)}
    return cell(
        label, "attribute-probe", status, reason=reason, measures=measures, headline="gain_accuracy",
        null=0.0,
        distinguishable="insufficient", p_value=0.6, reading="Too few records to say.",
    )  # fmt: skip


def pair(attack: str | None, first: str, second: str, gap: float, p: float, differs: bool) -> PairedResult:
    tap = "output" if attack and attack.startswith("inv") else None
    measure = {None: "accuracy", "invert-nearest": "f1"}.get(attack, "auc")
    return PairedResult(
        data=DATA, model=MODEL, attack=attack, tap=tap, measure=measure, first=first, second=second,
        difference=estimate(gap, 0.014), p_value=p / 7, p_holm=p, differs=differs,
    )  # fmt: skip


def paired() -> tuple[PairedResult, ...]:
    loss, one, eight = "mia-threshold signal=loss", "dp-adam epsilon=1", "dp-adam epsilon=8"
    return (
        pair(loss, "none", one, 0.03, 0.0004, True),
        pair(loss, "none", eight, 0.228, 1e-12, True),
        pair(loss, one, eight, 0.198, 1e-12, True),
        pair("invert-nearest", "none", one, 0.01, 0.8, False),
        pair("invert-nearest", "none", eight, 0.02, 0.05, True),
        pair("invert-nearest", one, eight, 0.01, 0.8, False),
        pair(None, "none", one, 0.17, 1e-12, True),
        pair(None, "none", eight, 0.01, 0.8, False),
        pair(None, one, eight, -0.16, 1e-12, True),
    )


def small_cells() -> tuple[CellResult, ...]:
    return (
        cell("none", "mia-threshold signal=loss", data=SMALL, measures={"auc": Undefined("one class")},
        headline="auc", null=0.5),
        cell("none", "mia-threshold signal=entropy", Status.INVALID, data=SMALL, measures={"auc": estimate(0.9, 0.05,
        60, 1)},
             headline="auc", null=0.5, reason="the blind attacker reaches 0.93"),
    )  # fmt: skip


def controls() -> tuple[ControlResult, ...]:
    shared = {"data": DATA, "model": MODEL}
    return (
        ControlResult(attack="mia-threshold signal=loss", goal="membership", tap=None, measure="auc", null=0.5,
        validated=True,
                      positive=estimate(0.93, 0.02), negative=estimate(0.5, 0.025), reason="", **shared),
        ControlResult(attack="attribute-probe", goal="attribute", tap="output", measure="accuracy", null=0.07,
        validated=False,
                      positive=estimate(0.08, 0.03, 120), negative=Undefined("not run"),
                      reason="did not break the positive control",
                      **shared),
    )  # fmt: skip


def blind() -> tuple[BlindResult, ...]:
    return (
        BlindResult(data=DATA, auc=estimate(0.503, 0.025), invalid=False, reading="The texts alone give nothing away."),
        BlindResult(
            data=SMALL, auc=estimate(0.93, 0.06, 60, 1), invalid=True, reading="Members are longer than the others."
        ),
    )


def attacks() -> tuple[AttackSummary, ...]:
    return (
        AttackSummary(label="mia-threshold signal=loss", use="mia-threshold", goal="membership", access="predictions",
                      source="Yeom et al. 2018", story="Calls a record a member when the model's loss on it is low."),
        AttackSummary(label="invert-nearest", use="invert-nearest", goal="inversion", access="embeddings",
        source="Song 2020"),
    )  # fmt: skip


def provenance() -> Provenance:
    return Provenance(
        dpeval="0.1.0", python="3.11.9", platform="Linux x86_64", packages={"torch": "2.13.0", "numpy": "2.4.1"},
        matrix_file="everything.toml", matrix_sha256="d4" * 32,
        matrix_text='name = "everything"\n# ```` a fence ````\nseeds = [0, 1, 2]\n',
        seeds=(0, 1, 2), command="dpeval run everything.toml", created="2026-01-02T03:04:05+00:00", seconds=481.3,
        jobs=2, threads=1,
        device="cpu", git="0123456789ab", trials={DATA: 18},
    )  # fmt: skip


def extreme() -> RunResult:
    """The run with infinite bounds wherever a number can be infinite."""
    run = build()
    endless = Estimate(2.5, 0.3, math.inf, n=10)
    cells = tuple(dataclasses.replace(c, measures={**c.measures, "epsilon bound": endless}) for c in run.cells)
    wide = dataclasses.replace(central(math.inf), details=(("σ", 0.0), ("ratio", math.inf)))
    first = dataclasses.replace(run.defenses[1], claim=wide, settings={"epsilon": math.inf, "layers": (1, 2)})
    return dataclasses.replace(run, cells=cells, defenses=(run.defenses[0], first, *run.defenses[2:]))
