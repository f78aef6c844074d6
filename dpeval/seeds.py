"""One independent random stream for each (stage, cell), whatever the order or the process in which it is used.

>>> derive(0, "split") != derive(0, "noise") and derive(0, "split") == derive(0, "split")
True
>>> int(rng(7, "bootstrap").integers(1000)) == int(rng(7, "bootstrap").integers(1000))
True
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(root: int, *names: str | int) -> int:
    """A 63-bit seed from ``root`` and a path of names, by SHA-256: streams of different paths are unrelated."""
    text = _SEPARATOR.join([str(int(root)), *(f"{type(name).__name__}:{_escaped(str(name))}" for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


def rng(root: int, *names: str | int) -> np.random.Generator:
    """A numpy generator for the stream ``(root, *names)``."""
    return np.random.default_rng(derive(root, *names))


def generator(root: int, *names: str | int) -> torch.Generator:
    """A torch CPU generator for the stream ``(root, *names)``, its whole state drawn from :func:`rng` of that stream.

    ``torch.Generator.manual_seed`` keeps 32 bits of its seed, so that of 65 000 streams two are the same with odds of
    even; two records with the same noise would give away their difference.

    >>> one, other = (generator(0, "noise", i) for i in range(2))
    >>> one.get_state().equal(other.get_state())
    False

    Raises:
        RuntimeError: this torch keeps the state of its generators in another form.
    """
    import torch

    made = torch.Generator().manual_seed(derive(root, *names))
    state = made.get_state()
    if len(state) != _STATE_BYTES:
        raise RuntimeError(
            f"expected a torch generator's state of {_STATE_BYTES} bytes, got {len(state)} with torch "
            f"{torch.__version__}: random streams cannot be made safely; use another version of torch"
        )
    words = state[_WORDS].view(torch.int64)
    words.copy_(torch.from_numpy(rng(root, *names).integers(1 << 32, size=len(words), dtype=np.int64)))
    made.set_state(state)
    return made


def _escaped(name: str) -> str:
    # A name may be a text of the data, and hold the separator: ("a", "b") and one text of both must not be one stream.
    return name.replace("\x1e", "\x1ee").replace(_SEPARATOR, "\x1es")


_SEPARATOR = "\x1f"
_STATE_BYTES = 5056
_WORDS = slice(24, 24 + 624 * 8)
"""Where the state of a torch CPU generator holds the words of its Mersenne Twister, 8 bytes each."""
