"""Checks that no sentence of the pages is longer than 35 words: run `python -m tools.prose [PAGE...]`.

Tables, code and headings are left out. A sentence ends where a full stop, a question mark or an exclamation mark is
followed by a space, and at the end of a paragraph or of an item of a list.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MOST_WORDS = 35

_ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_NOT_PROSE = re.compile(r"^(#|\||<|!\[|    ?\S)|^\s*$")
_ITEM = re.compile(r"^ *([-*]|\d+\.) ")
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
# What ends with a full stop and ends no sentence.
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs)\.")
_END = re.compile(r"(?<=[.!?])[)\"*_]* +")


def find_long_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a page that are too long, each with its number of words."""
    for paragraph in _split_paragraphs(_FENCE.sub("\n", text)):
        plain = re.sub(r"`[^`]*`", "`code`", _LINK.sub(r"\1", paragraph))
        for sentence in _END.split(_ABBREVIATION.sub(r"\1", plain)):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                yield len(words), sentence


def _split_paragraphs(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if (_NOT_PROSE.match(line) or _ITEM.match(line)) and lines:
            yield " ".join(lines)
            lines = []
        if not _NOT_PROSE.match(line):
            lines.append(_ITEM.sub("", line).strip())


def find_pages() -> list[Path]:
    """Return the pages that people write for readers."""
    docs = _ROOT / "docs"
    pages = [*_ROOT.glob("*.md"), *docs.rglob("*.md"), *(_ROOT / ".github").rglob("*.md")]
    made = docs / "reference"
    return sorted(page for page in pages if made not in page.parents and not page.is_symlink())


def main(pages: Iterable[Path]) -> int:
    """Print every sentence that is too long; return how many there are."""
    number = 0
    for page in pages:
        for words, sentence in find_long_sentences(page.read_text()):
            print(f"{page}: {words} words: {sentence}")
            number += 1
    return number


if __name__ == "__main__":
    sys.exit(1 if main([Path(name) for name in sys.argv[1:]] or find_pages()) else 0)
