"""Where the totals of the history lead."""

import pytest

from muster.dashboard.pages.history import find_link

QUERY = {"days": "30", "state": "Failed", "user": "", "queue": "", "namespace": ""}


@pytest.mark.parametrize(
    ("name", "by", "link"),
    [
        (
            "system:serviceaccount:a:robot",
            "user",
            "/ui/history?days=30&state=Failed&user=system%3Aserviceaccount%3Aa%3Arobot&by=user",
        ),
        ("vision/gpus", "queue", "/ui/history?days=30&state=Failed&queue=gpus&namespace=vision&by=queue"),
        ("Cancelled", "state", "/ui/history?days=30&state=Cancelled&by=state"),
        ("2026-01-01", "day", ""),
        ("", "user", ""),
    ],
)
def test_a_total_leads_to_the_runs_that_it_counts(name, by, link):
    assert find_link(name, by, QUERY) == link
