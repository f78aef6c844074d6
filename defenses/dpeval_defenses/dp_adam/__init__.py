"""DP-Adam (Li et al. 2022): private fine-tuning by exact per-example clipping and accounted noise.

The defense ``dp-adam`` of a matrix is :class:`DPAdam`. Its parts serve on their own: :class:`ClippedGradients` in a
plain PyTorch loop, :func:`train_private` for a model and a loss of one's own, :func:`causal_loss` for a causal language
model.

>>> DPAdam(epsilon=3.0, adapt="head").accounting.plan(num_records=600).steps
9
"""

from dpeval_defenses.dp_adam.causal import TargetTexts, causal_loss, target_loss
from dpeval_defenses.dp_adam.clipping import ClippedGradients
from dpeval_defenses.dp_adam.defense import DPAdam
from dpeval_defenses.dp_adam.noise import SecureNoise, SeededNoise
from dpeval_defenses.dp_adam.parallel import World
from dpeval_defenses.dp_adam.sampler import FixedSizeSampler, PoissonSampler
from dpeval_defenses.dp_adam.settings import TrainSettings
from dpeval_defenses.dp_adam.trainer import PrivateTrainer, train_private

__all__ = [
    "ClippedGradients", "DPAdam", "FixedSizeSampler", "PoissonSampler", "PrivateTrainer", "SecureNoise", "SeededNoise",
    "TargetTexts", "TrainSettings", "World", "causal_loss", "target_loss", "train_private",
]  # fmt: skip
