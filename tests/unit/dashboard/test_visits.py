"""Addresses, and what answers them."""

import pytest

from muster.dashboard.pages import ROUTES
from muster.dashboard.visits import Download, Router, make_address


async def answer(_):
    raise AssertionError


ROUTER = Router((Download("/queues/cluster/{name}", answer), Download("/queues/{namespace}/{name}", answer)))


def test_the_named_parts_of_a_path_are_told():
    found = ROUTER.find("/queues/default/a b.c")
    assert found is not None
    assert found[1] == {"namespace": "default", "name": "a b.c"}


def test_the_first_route_that_fits_answers():
    found = ROUTER.find("/queues/cluster/vision")
    assert found is not None
    assert found[0].pattern == "/queues/cluster/{name}"


@pytest.mark.parametrize(
    "path", ["/", "/queues", "/queues/a", "/queues/a/b/c", "/queues//b", "/queuesx/a/b", "/QUEUES/a/b"]
)
def test_other_paths_have_no_answer(path):
    assert ROUTER.find(path) is None


def test_an_address_quotes_what_strangers_wrote():
    assert make_address("jobs", "default", "../a?b#c") == "/ui/jobs/default/..%2Fa%3Fb%23c"
    assert make_address("jobs", state="Running", text="<b>", user="") == "/ui/jobs?state=Running&text=%3Cb%3E"
    assert make_address("") == "/ui/"


def test_no_two_pages_have_one_address():
    patterns = [route.pattern for route in ROUTES]
    assert len(patterns) == len(set(patterns))
