"""Which sentences count as too long."""

import pytest
from tools.prose import MOST_WORDS, find_long_sentences, find_pages

LONG = " ".join(["word"] * (MOST_WORDS + 1)) + "."
FITS = " ".join(["word"] * MOST_WORDS) + "."


@pytest.mark.parametrize(
    "text",
    [
        FITS,
        f"{FITS} {FITS}",
        f"- {FITS}\n- {FITS}\n1. {FITS}",
        f"{FITS}\n\n{FITS}",
        f"```\n{LONG}\n```\n",
        f"| {LONG} |\n",
        f"# {LONG}\n",
        f"`{LONG}` is one word.",
        f"{FITS[:-1]}](page.md).",
    ],
)
def test_what_fits(text):
    assert list(find_long_sentences(text)) == []


@pytest.mark.parametrize(
    "text",
    [LONG, LONG.replace(" ", "\n", 9), f"- {LONG}", f"Short. {LONG}", f"[{LONG}](page.md)", f"{FITS[:-1]} e.g. more."],
)
def test_what_is_too_long(text):
    assert len(list(find_long_sentences(text))) == 1


@pytest.mark.parametrize("page", find_pages(), ids=str)
def test_a_page_has_no_sentence_that_is_too_long(page):
    assert list(find_long_sentences(page.read_text())) == []
