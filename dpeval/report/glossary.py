"""What each measure means and what each kind of adversary has, for readers who meet them here first.

>>> null_of("tpr@0.1%fpr", "membership"), null_of("balanced_accuracy", "attribute"), null_of("gain_f1", "inversion")
(0.001, None, 0.0)
>>> define("gain_f1").text
"The attack's f1 minus baseline_f1, on the same records."
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    """What guessing membership reaches, where that does not depend on the data."""
    leak: bool = True
    always: bool = False
    """Whether ``guess`` holds for other goals too."""


TPR = r"tpr|true positive rate"
PPV = r"\bppv\b"
MEASURES = (
    Definition(
        r"^blind auc",
        "The AUC of the blind attacker, which sees texts and no score; above one half, the two groups differ "
        "by themselves.",
        0.5,
        leak=False,
    ),
    Definition(
        r"minus blind",
        "AUC minus that of the blind attacker, which never sees the model, on the same records.",
        0.0,
        always=True,
    ),
    Definition(
        r"memori[sz]ation",
        "The share recovered or named rightly on members minus that on records never trained on: what training left "
        "behind, apart from what embeddings tell of any text.",
        0.0,
        always=True,
    ),
    Definition(
        r"detectable",
        "The smallest value that this attack, with these sizes, would have told from guessing.",
        leak=False,
    ),
    Definition(
        TPR,
        "The share of members found when at most so large a share of non-members is called a member: the worst case "
        "for single people. Given only with enough non-members (about 3 divided by the rate).",
    ),
    Definition(
        r"\bauc\b",
        "The probability that a random member gets a higher score than a random non-member, ties counting half.",
        0.5,
    ),
    Definition(
        r"balanced accuracy",
        "The mean over the classes of the share answered rightly. For membership: at a threshold frozen on a "
        "calibration half of the records and measured on the other.",
        0.5,
    ),
    Definition(r"advantage", "True positive rate minus false positive rate at the frozen threshold.", 0.0),
    Definition(
        PPV,
        "Of the records called members at the frozen threshold, the share that are members, in a population in which "
        "the share named after @ was trained on ([report] prevalence; 10 % unless stated).",
    ),
    Definition(
        r"exposure median",
        "Of the planted canaries, the median exposure: by how many halvings of the field it stands above the canaries "
        "that were held out, log2(N) - log2(rank); over several seeds the mean of their medians.",
        1.0,
        always=True,
    ),
    Definition(
        r"exposure max",
        "The largest exposure of a planted canary, at most log2(N); among many canaries one stands high by chance.",
    ),
    Definition(r"ranked first", "The share of planted canaries that score above every canary that was held out."),
    Definition(
        r"epsilon|ε",
        "A lower bound on ε that follows from how well the attack worked, whatever the claim: for one record, central, "
        "add or remove one, at δ = 1e-05 and the confidence of the intervals, not adjusted for the number of cells. "
        "The bound that judges a claim stands with the claim, at the claim's δ and a level that all audits share.",
    ),
    Definition(
        r"worst class recall", "Of the records of the attribute value that fares worst, the share named rightly."
    ),
    Definition(
        r"precision", "Of the tokens guessed, the share that stands in the text, without special tokens and padding."
    ),
    Definition(
        r"recall with special tokens",
        "As published for DP-Forward: the share of rows guessed rightly with special tokens among them. These are the "
        "same in every text and count as guessed, so short texts look more recovered than they are.",
        leak=False,
    ),
    Definition(r"recall", "Of the tokens of the text, the share that was guessed, without special tokens and padding."),
    Definition(r"\bf1\b", "The harmonic mean of token precision and recall, without special tokens and padding."),
    Definition(r"accuracy", "The share answered rightly."),
)
PREFIXES = {
    "baseline ": Definition("", "What the best guess without the released data reaches on {}.", leak=False),
    "gain ": Definition("", "The attack's {0} minus baseline_{0}, on the same records.", 0.0, always=True),
    "ceiling ": Definition(
        "",
        "{} of a word-count classifier on the same auxiliary texts in clear: a reference, not an upper bound.",
        leak=False,
    ),
}
SUFFIXES = {
    "content ": " Content words only: stop words and punctuation are left out on both sides.",
    "position ": " Counted row by row, instead of as a bag of tokens.",
    "top 5 ": " Counted row by row: right where the token is among the five best that are named for its row.",
    "top 10 ": " Counted row by row: right where the token is among the ten best that are named for its row.",
}
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
    """The definition of a measure by its name: ``gain_content_f1`` is a gain, in the F1 of content words."""
    name = _spaced(measure)
    for prefix, found in PREFIXES.items():
        if name.startswith(prefix):
            return replace(found, text=found.text.format(measure[len(prefix) :]))
    bare, added = name, ""
    for prefix, more in SUFFIXES.items():
        if bare.startswith(prefix):
            bare, added = bare.removeprefix(prefix), added + more
    found = next((d for d in MEASURES if re.search(d.pattern, bare)), UNKNOWN)
    return replace(found, text=found.text + added)


def null_of(measure: str, goal: str) -> float | None:
    """What guessing reaches, where that does not depend on the data: for a TPR its FPR, for a PPV its prevalence."""
    found = define(measure)
    rate = re.search(r"(\d[\d.e-]*)\s*(%?)", measure)
    if found.pattern in (TPR, PPV) and rate:
        return float(rate[1]) / (100 if rate[2] else 1)
    return found.guess if found.always or goal == "membership" else None


def _spaced(measure: str) -> str:
    return re.sub(r"[_\s]+", " ", measure.lower())


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
        "Overlapping intervals are called ties: the two were not shown to differ, which does not make them equal.",
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
