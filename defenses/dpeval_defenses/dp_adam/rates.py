"""Learning rates where none are given: what worked at ε = 8 with some thousand texts and some dozen steps.

Private steps are few and every one is paid for, so a new head, which starts from nothing, wants a far larger rate than
pretrained weights. Measured in 24 steps on 1,500 film reviews (MiniLM, ε = 8, majority 0.52), accuracy on 600 others,
whose standard error is 0.02: with one rate of 5e-4 for all, full reached 0.54, last-2 0.56, LoRA 0.64; with the rates
below, last-2 0.70, LoRA 0.72, BitFit 0.74 and a head alone 0.74. One seed, eleven settings in all, chosen by the same
600 texts, which were cut at 40 tokens in the first three and the last and at 32 in the others: enough to tell a rate
that works from one that does not, and no ranking of the ways to adapt. Full with these rates, prefix and rgp were not
measured. Given a rate and no head rate, the head has the same, as in the paper, whose runs take hundreds of steps.

>>> default_rates("lora", new_head=True, optimizer="adamw", clip=0.1)
(0.001, 0.1)
>>> default_rates("full", new_head=False, optimizer="adamw", clip=0.1)
(0.0005, 0.0005)
"""

from __future__ import annotations

from collections.abc import Mapping

from dpeval_defenses.dp_adam.adapt import Kind

NEW_HEAD = 0.1
PRETRAINED: Mapping[Kind, float] = {
    "full": 5e-4, "last": 5e-4, "rgp": 5e-4, "lora": 1e-3, "bitfit": 1e-3, "head": 1e-3, "prefix": 1e-2,
}  # fmt: skip


def default_rates(kind: Kind, *, new_head: bool, optimizer: str, clip: float) -> tuple[float, float]:
    """The learning rate of what is pretrained (or adapts it), and that of the head.

    SGD's steps are as long as the clipped gradient, so its rate is in units of 1/clip: one step moves the weights by at
    most a tenth, noise apart.
    """
    if optimizer == "sgd":
        return 0.1 / clip, 0.1 / clip
    if not new_head:
        return PRETRAINED[kind], PRETRAINED[kind]
    return (NEW_HEAD if kind == "head" else PRETRAINED[kind]), NEW_HEAD
