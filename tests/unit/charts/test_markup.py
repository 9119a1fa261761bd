from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from muster.charts.markup import Markup, format_number, join, make_element

HOSTILE = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(1)>&amp;\0\x1b]0;"


def test_names_become_no_markup():
    text = make_element("p", {"data-n": HOSTILE}, HOSTILE)
    tree = ET.fromstring(text)
    assert len(tree) == 0
    assert tree.text == HOSTILE.replace("\0", "\ufffd").replace("\x1b", "\ufffd")
    assert tree.attrib["data-n"] == tree.text


@given(st.text())
def test_any_text_reads_as_it_is_or_with_replacements(text):
    tree = ET.fromstring(make_element("p", {"title": text}, text))
    assert len(tree.text or "") == len(text)
    assert len(tree) == 0


def test_markup_and_lists_of_it_are_kept():
    assert join(["<", [Markup("<b>"), "&"], Markup("</b>")]) == "&lt;<b>&amp;</b>"


def test_attributes_that_are_none_or_false_are_left_out():
    assert make_element("p", {"a": None, "b": False, "hidden": True, "x": 1.0, "y": 2.345, "n": 3}) == (
        '<p hidden="" x="1" y="2.35" n="3"></p>'
    ).replace("2.35", format_number(2.345))
