"""The pages for readers: their links lead somewhere, and what they say of the tree is so."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    {path.resolve() for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / ".github").rglob("*.md"))}
)
# Pages about the tree itself, whose code names its files.
ABOUT_THE_TREE = [
    *map(DOCS.joinpath, ("architecture.md", "internals.md", "contributing.md")),
    *(DOCS / "decisions").glob("*.md"),
]
PLACES = re.compile(r"(?:[\w.-]+/)+(?:[\w-]+\.\w+)?|[\w-]+\.py")
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


def places(page: Path) -> set[str]:
    """Return the files and folders that the code in a page names, without those that stand for others or are made."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = {code for code in re.findall(r"`([^`\n]+)`", text) if PLACES.fullmatch(code)}
    return {place for place in found if not re.search(r"[A-Z]{2}|^muster\.dev/|^\.\./|^build/|test_uid_column", place)}


TREE = [
    path.relative_to(ROOT).as_posix() + "/" * path.is_dir()
    for top in ("src", "tests", "docs", "deploy", "benchmarks", "examples", ".ci", ".github", "tools")
    for path in (ROOT / top, *(ROOT / top).rglob("*"))
]


@pytest.mark.parametrize("page", ABOUT_THE_TREE, ids=lambda page: page.name)
def test_the_places_that_a_page_names_are_there(page: Path) -> None:
    missing = [place for place in places(page) if not any(f"/{path}".endswith(f"/{place}") for path in TREE)]
    assert missing == []


@pytest.mark.parametrize("folder", sorted({path.parent for path in (ROOT / "tests/unit").rglob("test_*.py")}))
def test_unit_tests_mirror_the_packages(folder: Path) -> None:
    name = folder.relative_to(ROOT / "tests/unit")
    assert any((above / name / "__init__.py").exists() for above in (ROOT / "src/muster", ROOT))
