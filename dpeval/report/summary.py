"""The summary that opens the report: plain sentences on what leaked, what was refuted and what means nothing.

>>> from dpeval.report.example import tiny_run
>>> overview(tiny_run())
'1 defense and 1 cell (one attack on one defense each): 1 differs from guessing.'
"""

from __future__ import annotations

from dpeval.report.cells import prose, shorten
from dpeval.report.layout import Block, block_name, blocks, ok
from dpeval.report.leaks import comparison, defense_sentences
from dpeval.report.marks import stamp
from dpeval.report.numbers import guarantee, lower_bound, percent, plural
from dpeval.report.pairs import pairs_of
from dpeval.report.sizes import size_sentences
from dpeval.report.trade import baseline_sentence, dominated_sentences, utility_sentence
from dpeval.report.void import voids
from dpeval.results import DefenseResult, Ruling, RunResult, Status, Verdict
from dpeval.types import Claim

FOUND = {
    "yes": ("differs from guessing", "differ from guessing"),
    "no": ("shows no difference at its power", "show no difference, each at its power"),
    "insufficient": ("is undecided for want of data", "are undecided for want of data"),
}
REASON = 300
"""Characters of a reason in the summary; the detail has all of it."""


def section(result: RunResult) -> list[str]:
    """The summary as markdown paragraphs."""
    return [
        f"## Summary{stamp(result)}",
        prose(overview(result)),
        *_part("Privacy claims", _claims(result)),
        *_part("What leaked", [line for b in blocks(result) for line in _leaks(result, b)]),
        *_part("Defenses compared under each attack", [line for b in blocks(result) for line in _compared(result, b)]),
        *_part("What means nothing here, and why", _void(result)),
        *_part("Utility and cost", [*_baselines(result), *(x for b in blocks(result) for x in _utility(result, b))]),
        *_part("What these sizes can and cannot show", [f"- {prose(s)}" for s in size_sentences(result)]),
    ]


def overview(result: RunResult) -> str:
    """The run in one sentence: how many cells there are, and what became of them."""
    valid = ok(result.cells)
    unfit = sum(c.status is Status.UNFIT for c in result.cells)
    ended = [(sum(c.distinguishable == d for c in valid), words) for d, words in FOUND.items()]
    ended += [(len(result.cells) - len(valid) - unfit, ("gave no valid result",) * 2)]
    ended += [(unfit, ("makes no sense and was not run", "make no sense and were not run"))]
    counts = ", ".join(f"{n} {words[n != 1]}" for n, words in ended if n)
    cells = plural(len(result.cells), "cell")
    sizes = f"{plural(len(result.defenses), 'defense')} and {cells} (one attack on one defense each)"
    return f"{sizes}: {counts}." if counts else f"{sizes}."


def refuted_lines(result: RunResult) -> tuple[str, ...]:
    """One raw sentence for each refuted claim."""
    return tuple(_refuted(result, d) for d in result.defenses if d.verdict.ruling is Ruling.REFUTED)


def _part(title: str, lines: list[str]) -> list[str]:
    return [f"### {title}", "\n".join(lines)] if lines else []


def _refuted(result: RunResult, defense: DefenseResult) -> str:
    claimed = guarantee(defense.claim) if isinstance(defense.claim, Claim) else "no claim"
    return (
        f"CLAIM REFUTED: {_name(result, defense)} claims {claimed}.{_bound(defense.verdict)} {defense.verdict.reading}"
    )


def _bound(verdict: Verdict) -> str:
    """The measured bound, unless the reading holds it."""
    if verdict.bound is None or lower_bound(verdict.bound) in verdict.reading:
        return ""
    return f" Measured: ε ≥ {lower_bound(verdict.bound)} at {percent(verdict.level)}."


def _name(result: RunResult, defense: DefenseResult) -> str:
    place = block_name(result, Block(defense.data, defense.model, (), ()))
    return f"{defense.label} ({place})" if place else defense.label


def _claims(result: RunResult) -> list[str]:
    refuted = [f"- **{prose(line)}**" for line in refuted_lines(result)]
    none = (
        ["- No claim was refuted."] if not refuted and any(isinstance(d.claim, Claim) for d in result.defenses) else []
    )
    return refuted + none + [line for ruling in Ruling if (line := _ruled(result, ruling))]


def _ruled(result: RunResult, ruling: Ruling) -> str | None:
    names = [_name(result, d) for d in result.defenses if d.verdict.ruling is ruling]
    words = {
        Ruling.CONSISTENT: "consistent with the measurements, which does not prove the claim",
        Ruling.UNTESTABLE: "not testable here; see the table of claims for the reason",
        Ruling.NO_CLAIM: "no claim made, so none could be tested",
    }
    if not names or ruling not in words:
        return None
    return f"- {prose(', '.join(names))}: {words[ruling]}."


def _leaks(result: RunResult, block: Block) -> list[str]:
    return [f"- **{prose(label)}**{_where(result, block)} " + prose(" ".join(defense_sentences(block, label)))
            for label in block.labels]  # fmt: skip


def _compared(result: RunResult, block: Block) -> list[str]:
    pairs = [(column.label, comparison(block, column, pairs_of(result, block, column))) for column in block.columns]
    return [f"- **{prose(label)}**{_where(result, block)}: {prose(said)}" for label, said in pairs if said]


def _void(result: RunResult) -> list[str]:
    out = []
    for void in voids(result):
        out.append(f"- **{prose(void.word)}** ({void.count}): {prose(void.meaning)}.")
        out += [f"  - {prose('; '.join(names))}: {prose(shorten(why, REASON))}" for why, names in void.reasons]
    return out or [f"- Nothing: {plural(len(result.cells), 'cell')}, all in order."]


def _baselines(result: RunResult) -> list[str]:
    """Once for each data set, however many models were tried on it."""
    said = dict.fromkeys(baseline_sentence(result, block) for block in blocks(result))
    return [f"- {prose(line)}" for line in said if line]


def _utility(result: RunResult, block: Block) -> list[str]:
    return [
        *(
            f"- **{prose(d.label)}**{_where(result, block)}: {prose(utility_sentence(result, block, d))}"
            for d in block.defenses
        ),
        *(f"- **{prose(name)}**{_where(result, block)} {prose(said)}" for name, said in dominated_sentences(block)),
    ]


def _where(result: RunResult, block: Block) -> str:
    place = block_name(result, block)
    return f" ({prose(place)})" if place else ""
