"""The pages for readers: their links lead somewhere, and what they say of the tree is so."""

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


@pytest.mark.parametrize("folder", sorted({path.parent for path in (ROOT / "tests/unit").rglob("test_*.py")}))
def test_unit_tests_mirror_the_packages(folder: Path) -> None:
    package = ROOT / "src/muster" / folder.relative_to(ROOT / "tests/unit")
    assert (package / "__init__.py").exists()
