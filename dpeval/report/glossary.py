"""What each measure means and what each kind of adversary has, for readers who meet them here first.

>>> define("tpr at fpr 0.01").null("tpr at fpr 0.01")
0.01
>>> define("auc").leak
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dpeval.report.cells import prose
from dpeval.report.numbers import percent
from dpeval.report.table import NOTHING, Table
from dpeval.results import AttackSummary, RunResult


@dataclass(frozen=True)
class Definition:
    """A measure in words; ``leak`` tells whether a higher value means more leakage."""

    pattern: str
    text: str
    guess: float | None = None
    leak: bool = True

    def null(self, name: str) -> float | None:
        """What guessing reaches: for a rate at a false positive rate that rate itself, else the fixed value."""
        rate = re.search(r"fpr\D*?(\d[\d.e-]*)\s*(%?)", name.lower())
        if self.pattern == TPR and rate:
            return float(rate[1]) / (100 if rate[2] else 1)
        return self.guess


TPR = r"tpr.*fpr|true positive rate"
MEASURES = (
    Definition(r"detectable", "The smallest value that this attack, with these sizes, would have told from guessing.",
               leak=False),
    Definition(r"\bfpr reached|reached fpr", "The false positive rate really reached at the frozen threshold.",
               leak=False),
    Definition(r"blind|excess over", "The attack's value minus that of an attacker that never sees the model.", 0.0),
    Definition(r"memori[sz]ation|excess", "The value on members minus the value on records never trained on: what was "
               "memorised, apart from what anyone could infer about the population.", 0.0),
    Definition(TPR, "The share of members found when at most so large a share of non-members is called a member: the "
               "worst case for single people. Given only with enough non-members (about 3 divided by the rate)."),
    Definition(r"\bauc\b|area under", "The probability that a random member gets a higher score than a random "
               "non-member, ties counting half.", 0.5),
    Definition(r"balanced accuracy", "The mean of the shares of both classes answered rightly; for membership at a "
               "threshold frozen on a calibration part that takes no part in the measure.", 0.5),
    Definition(r"advantage", "True positive rate minus false positive rate at a frozen threshold.", 0.0),
    Definition(r"\bppv\b|precision at prevalence", "Of the records called members, the share that are, where members "
               "are as rare as the stated prevalence says."),
    Definition(r"epsilon|ε|\beps\b", "A lower bound on ε that follows from how well the attack worked, whatever the "
               "claim."),
    Definition(r"gain", "Accuracy minus that of the best baseline that does not see the embedding (majority, prior, or "
               "other columns).", 0.0),
    Definition(r"precision", "Of the tokens guessed, the share that stands in the text, without special tokens and "
               "padding."),
    Definition(r"recall", "Of the tokens of the text, the share that was guessed, without special tokens and padding."),
    Definition(r"\bf1\b|f-?score", "The harmonic mean of token precision and recall, without special tokens and "
               "padding."),
    Definition(r"baseline|majority|prior|unigram", "What the best guess without the released data reaches.",
               leak=False),
    Definition(r"top.?\d", "The share of cases in which the truth is among the first so many answers."),
    Definition(r"accuracy", "The share answered rightly."),
)  # fmt: skip
UNKNOWN = Definition("", "No definition is recorded; see the documentation of the attack.")

GOALS = {
    "membership": "The adversary holds a record and asks whether the model was trained on it. Random guess: a coin.",
    "inversion": (
        "The adversary intercepts the tensor that leaves the user's device and wants the words of the text back. "
        "Random guess: the most frequent words, without seeing the tensor."
    ),
    "attribute": (
        "The adversary intercepts the tensor and wants a sensitive attribute of its text or author. Random guess: the "
        "best baseline that does not see the tensor."
    ),
    "extraction": "The adversary wants training text out of the model, tested on planted canaries.",
}
ACCESS = {
    "predictions": "class probabilities of any text, asked as often as it likes",
    "embeddings": "the released tensor of each target, and that of any text of its own",
    "weights": "the weights of the trained model",
}
ALWAYS = (
    "Every adversary also has the public base model and tokenizer, the published defense with its settings, and "
    "auxiliary texts from the same population that are none of the targets."
)


def define(measure: str) -> Definition:
    """The definition of a measure by its name."""
    name = re.sub(r"[_\s]+", " ", measure.lower())
    return next((d for d in MEASURES if re.search(d.pattern, name)), UNKNOWN)


def section(result: RunResult) -> list[str]:
    """Definitions of the measures shown and the threat model of each attack."""
    names = dict.fromkeys(name for c in result.cells for name in (c.headline, *c.measures) if name)
    goals = dict.fromkeys(c.goal for c in result.cells)
    return [
        "## Glossary",
        *_measures(names),
        *_list(
            "Threat models",
            [f"**{prose(g)}**: {prose(GOALS.get(g, 'see the documentation of the attack.'))}" for g in goals],
        ),
        ALWAYS,
        *_attacks(result.attacks),
        *_list("Reading the tables", [prose(line) for line in reading_notes(result)]),
    ]


def reading_notes(result: RunResult) -> tuple[str, ...]:
    """How intervals, p-values and claims are to be read."""
    return (
        f"An interval in brackets holds the true value with {percent(result.level)} confidence over records and seeds.",
        "p (Holm) is the p-value against guessing after adjustment for all comparisons of the run (Holm 1979).",
        "Overlapping intervals are called ties: the data do not tell the two apart.",
        "A difference that was not found may exist below the detection limit; a null result is about this attack only.",
        "ε of different unit, trust model or adjacency measure different things and never share a column.",
    )


def _measures(names: Iterable[str]) -> list[str]:
    rows = tuple((name, define(name).text) for name in names)
    return ["### Measures", Table(("measure", "meaning"), rows).markdown()] if rows else []


def _attacks(attacks: tuple[AttackSummary, ...]) -> list[str]:
    rows = tuple(
        (a.label, a.goal, ACCESS.get(a.access, a.access or NOTHING), a.story or NOTHING, a.source or NOTHING)
        for a in attacks
    )
    table = Table(("attack", "goal", "the adversary sees", "what it does", "source"), rows)
    return ["### Attacks", table.markdown()] if rows else []


def _list(title: str, lines: list[str]) -> list[str]:
    return [f"### {title}", "\n".join(f"- {line}" for line in lines)] if lines else []
