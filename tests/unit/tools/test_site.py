"""How the site is put together: which pages its navigation has, and which version it leads to."""

import pytest
import yaml
from tools.site import ROOT, complete_navigation, list_pages, list_versions

NAVIGATION = [{"Home": "index.md"}, {"Use": ["run.md", {"Sweeps": "sweeps.md"}]}, {"Old": ["gone.md"]}]


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ({"index.md", "run.md"}, [{"Home": "index.md"}, {"Use": ["run.md"]}]),
        ({"sweeps.md"}, [{"Use": [{"Sweeps": "sweeps.md"}]}]),
        ({"index.md", "new.md", "a/b.md"}, [{"Home": "index.md"}, {"More": ["a/b.md", "new.md"]}]),
        (set(), []),
    ],
)
def test_the_navigation_has_all_pages_and_no_other(pages, expected):
    assert complete_navigation(NAVIGATION, pages) == expected


def test_no_page_of_ours_is_named_twice():
    pages = list(list_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(set(pages)) == sorted(pages)


@pytest.mark.parametrize(
    ("names", "expected"),
    [({"0.9.0", "0.10.0", "0.2.1"}, ["0.10.0", "0.9.0", "0.2.1"]), ({"1.0.0"}, ["1.0.0"]), (set(), [])],
)
def test_versions_are_ordered_by_their_numbers(names, expected):
    assert list_versions(names) == expected
