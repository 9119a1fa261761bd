"""Combine figures into one HTML page that needs no network, no server and no other file.

The page's content security policy allows only the page's own style sheet and script, by their hashes.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.resources import files

from msgspec import Struct

from muster.charts.markup import Markup, make_element


class Figure(Struct, frozen=True):
    """A chart with its caption.

    reading: how to read the chart.
    wide: whether it takes the whole width of the page.
    """

    title: str
    reading: str
    body: Markup
    legend: Markup = Markup()
    wide: bool = False


class Section(Struct, frozen=True):
    """A group of figures under one heading. id: the anchor for links to the section."""

    id: str
    title: str
    figures: Sequence[Figure]


class Tile(Struct, frozen=True):
    """A single number at the top of the page, such as the mean wait. note: what the number counts."""

    name: str
    value: str
    note: str = ""


def render_page(title: str, lead: Iterable[Markup], tiles: Iterable[Tile], sections: Sequence[Section]) -> str:
    """Return a complete HTML page, with its style and script, a menu of the sections, tiles and figures.

    lead: the paragraphs below the title.
    """
    style, script = (_read_part(name) for name in ("page.css", "page.js"))
    own = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    policy = f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"
    head = (
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        make_element("title", {}, title),
        make_element("style", {}, Markup(style)),
    )
    links = (make_element("li", {}, make_element("a", {"href": f"#{one.id}"}, one.title)) for one in sections)
    body = (
        make_element("header", {}, make_element("h1", {}, title), *lead),
        make_element("nav", {"aria-label": "Sections"}, make_element("ul", {}, *links)),
        make_element(
            "main",
            {},
            make_element("dl", {"class": "tiles"}, *map(_render_tile, tiles)),
            *map(_render_section, sections),
        ),
        make_element("output", {"id": "tip", "hidden": True}),
        make_element("script", {}, Markup(script)),
    )
    page = make_element("html", {"lang": "en"}, make_element("head", {}, *head), make_element("body", {}, *body))
    return f"<!DOCTYPE html>\n{page}\n"


def _render_tile(tile: Tile) -> Markup:
    note = make_element("dd", {"class": "note"}, tile.note) if tile.note else Markup()
    return make_element("div", {}, make_element("dt", {}, tile.name), make_element("dd", {}, tile.value), note)


def _render_section(section: Section) -> Markup:
    figures = make_element("div", {"class": "figures"}, map(_render_figure, section.figures))
    return make_element("section", {"id": section.id}, make_element("h2", {}, section.title), figures)


def _render_figure(figure: Figure) -> Markup:
    caption = make_element(
        "figcaption", {}, make_element("h3", {}, figure.title), make_element("p", {}, figure.reading)
    )
    return make_element("figure", {"class": "wide" if figure.wide else None}, caption, figure.legend, figure.body)


def _read_part(name: str) -> str:
    return (files("muster.charts") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
