"""The files that every page uses."""

import json
from hashlib import sha256
from importlib.resources import files

from muster.dashboard.statics import answer_static, list_names, url_of_static

STATIC = files("muster.dashboard") / "static"


def test_what_is_shipped_of_others_is_what_is_noted():
    others = json.loads((STATIC / "others.json").read_text())
    for one in others:
        assert sha256((STATIC / one["file"]).read_bytes()).hexdigest() == one["sha256"], one["file"]
        assert all(one[what] for what in ("name", "version", "licence", "source"))
    minified = {name for name in list_names() if ".min." in name}
    assert minified == {one["file"] for one in others}, "every file of others is noted"


def test_a_file_is_kept_by_browsers_for_as_long_as_its_address_holds_its_hash():
    address = url_of_static("style.css").removeprefix("/ui")
    answer = answer_static(address)
    assert answer is not None
    assert "immutable" in answer.headers["cache-control"]
    old = answer_static("/static/0123456789abcdef/style.css")
    assert old is not None
    assert old.headers["cache-control"] == "no-cache"


def test_nothing_else_is_served():
    for path in (
        "/static/x/others.json",
        "/static/x/../app.py",
        "/static/x/",
        "/static/style.css",
        "/static/x/y/style.css",
    ):
        assert answer_static(path) is None, path


def test_scripts_and_styles_name_no_other_place():
    for name in list_names():
        text = (STATIC / name).read_text()
        if ".min." not in name:
            assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
            assert "https://" not in text, name
