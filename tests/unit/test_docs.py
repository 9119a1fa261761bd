"""The pages for readers: their links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKS = [
    pytest.param(page, target, id=f"{page.name}:{target}")
    for page in PAGES
    for target in dict.fromkeys(re.findall(r"\]\(([^)\s]+)\)", page.read_text()))
    if "://" not in target
]


def anchors(page: Path) -> set[str]:
    """Of headings, as they are made where people read the pages."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_links_lead_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    assert file.exists()
    assert not anchor or anchor in anchors(file)
