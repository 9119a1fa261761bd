"""A bar of parts."""

from xml.etree import ElementTree as ET

from muster.charts.meter import Part, draw_meter


def draw(*parts: Part, total: float, mark: float | None = None) -> list[dict[str, str]]:
    svg = ET.fromstring(draw_meter(parts, total, 'a "label" <b>', mark))
    assert svg.attrib["aria-label"] == svg.findtext("title") == 'a "label" <b>'
    return [dict(one.attrib) for one in svg if one.tag in ("rect", "line")][1:]


def test_parts_have_their_share_of_the_width() -> None:
    used, more = draw(Part(0, 3, "used"), Part(3, 1, "borrowed"), total=8)
    assert (used["class"], used["x"], used["width"]) == ("used", "0%", "37.5%")
    assert (more["class"], more["x"], more["width"]) == ("borrowed", "37.5%", "12.5%")


def test_nothing_has_no_part_and_no_total_is_no_error() -> None:
    assert draw(Part(0, 0, "used"), total=0) == []
    [all_of_it] = draw(Part(0, 5, "used"), total=0)
    assert all_of_it["width"] == "100%"


def test_a_mark_crosses_the_bar_within_it() -> None:
    [line] = draw(total=8, mark=2)
    assert (line["x1"], line["x2"]) == ("25%", "25%")
    assert draw(total=8, mark=8) == draw(total=8, mark=0) == []
