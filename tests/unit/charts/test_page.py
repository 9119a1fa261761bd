import base64
import hashlib
import re

from muster.charts.markup import make_element
from muster.charts.page import Figure, Section, Tile, render_page

HOSTILE = "</title><script>alert(1)</script>"


def page():
    figure = Figure(HOSTILE, HOSTILE, make_element("p", {}, HOSTILE), wide=True)
    return render_page(
        HOSTILE,
        [make_element("p", {}, HOSTILE)],
        [Tile(HOSTILE, HOSTILE, HOSTILE)],
        [Section("one", HOSTILE, [figure])],
    )


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_the_style_and_the_script_of_the_page_alone():
    text = page()
    [style], [script] = (re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("style", "script"))
    [policy] = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    own = f"style-src '{digest(style)}'; script-src '{digest(script)}'"
    assert policy == f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def test_the_page_needs_nothing_else():
    text = page().replace("http://www.w3.org/2000/svg", "")  # the name of a namespace, which nobody fetches
    assert re.findall(r"https?:|//[a-z]|@import|url\(|\ssrc=|<link|\son[a-z]+=|\sstyle=", text) == []


def test_names_are_text():
    assert HOSTILE not in page()
    assert page().count("<script") == 1
