"""What a data set is known by: a hash of everything in it that can change a result.

>>> records = Records(ids=("a", "b"), texts=("x", "y"), labels=(0, 1))
>>> fingerprint(records, None)[:8], fingerprint(records.take([1, 0]), None)[:8]
('2cd248b1', 'acc0bcfc')
"""

from __future__ import annotations

import hashlib
import json

from dpeval.types import Records


def fingerprint(records: Records, test: Records | None) -> str:
    """SHA-256, in hex, over ids in order, texts, labels, attributes, groups and the test set."""
    digest = hashlib.sha256()
    for part, held in (("pool", records), ("test", test)):
        digest.update(f"{part}\n".encode())
        for row in (
            () if held is None else zip(held.ids, held.texts, held.labels, held.attributes, held.groups, strict=True)
        ):
            digest.update(json.dumps(row).encode() + b"\n")
    return digest.hexdigest()
