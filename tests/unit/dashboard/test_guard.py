"""Which requests reach a page."""

import pytest

from muster.dashboard.guard import HEADERS, is_from_here, is_known_host

NAMES = ("box1.lab", "10.0.0.7")


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:6443", True),
        ("127.0.0.1", True),
        ("localhost:7443", True),  # through a tunnel, the port is another
        ("[::1]:6443", True),
        ("box1.lab:6443", True),
        ("BOX1.lab", True),
        ("10.0.0.7:6443", True),
        ("", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("box1.lab.evil.example", False),
        ("evil.example#127.0.0.1", False),
        ("evil.example@127.0.0.1", False),
        ("127.0.0.1/evil.example", False),
        ("[::1", False),
        ("10.0.0.8", False),
    ],
)
def test_a_server_answers_to_its_own_names(host, known):
    assert is_known_host(host, NAMES) is known


@pytest.mark.parametrize(
    ("origin", "site", "from_here"),
    [
        ("http://127.0.0.1:6443", "same-origin", True),
        ("http://127.0.0.1:6443", "", True),  # an old browser says only the origin
        ("", "same-origin", True),
        ("", "none", True),
        ("", "", False),  # no browser that sends forms keeps silent about both
        ("http://127.0.0.1:7000", "same-site", False),  # another server of the same machine
        ("http://127.0.0.1:7000", "", False),
        ("https://evil.example", "cross-site", False),
        ("null", "", False),
        ("http://127.0.0.1:6443", "cross-site", False),
    ],
)
def test_a_write_comes_from_a_page_of_this_server(origin, site, from_here):
    assert is_from_here("127.0.0.1:6443", origin, site) is from_here


def test_pages_run_nothing_that_is_not_a_file_of_this_server():
    policy = dict(part.strip().partition(" ")[::2] for part in HEADERS["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in HEADERS["content-security-policy"]
