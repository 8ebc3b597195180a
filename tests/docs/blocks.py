"""The fenced blocks of a Markdown file."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Block:
    """A fenced block; `printed` is the text block right below it, which shows what it prints, or None."""

    language: str
    text: str
    line: int
    printed: str | None


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order; those that show output are part of the block above them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[Block] = []
    last_end = 0
    for match in _FENCE.finditer(text):
        language, content = match[1], match[2]
        if language == "text" and found and not text[last_end : match.start()].strip():
            found[-1] = attrs.evolve(found[-1], printed=content)
        else:
            found.append(Block(language, content, text.count("\n", 0, match.start()) + 1, None))
        last_end = match.end()
    return found
