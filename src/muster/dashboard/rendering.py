"""Render templates. Every value is escaped, because names, labels, messages and output come from other users."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from muster.charts.markup import Markup, make_element
from muster.dashboard.statics import url_of_static
from muster.dashboard.visits import make_address
from muster.insight.text import format_age, format_duration, format_owner, make_sentence, shorten

_MENU = (
    ("overview", "Overview", ()),
    ("jobs", "Jobs", ("jobs",)),
    ("queues", "Queues", ("queues",)),
    ("nodes", "Nodes", ("nodes",)),
    ("history", "History", ("history",)),
    ("clusters", "Clusters", ("clusters",)),
    ("simulations", "Simulations", ("simulations",)),
)


# About six lines of a table column. The last output of a program may be much longer.
_LIST_CHARACTERS = 400  # the page of a job shows the whole text


class Renderer:
    """The compiled templates of the dashboard's pages."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("muster.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,  # the templates of an installation do not change
        )
        self._environment.globals |= {"address": make_address, "static": url_of_static, "menu": _MENU}
        self._environment.filters |= {
            "age": render_age,
            "until": render_until,
            "offset": render_offset,
            "duration": render_duration,
            "short_user": format_owner,
            "sentence": make_sentence,
            "shortened": partial(shorten, most=_LIST_CHARACTERS),
        }

    def prepare(self, template: str) -> None:
        """Compile a template unless it has been compiled already, so that the first rendering is fast."""
        self._environment.get_template(template)

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return the HTML of a whole page, including the menu."""
        return self._environment.get_template(template).render(values, layout="base.html")

    def render_main(self, template: str, values: Mapping[str, Any]) -> str:
        """Return the HTML of the main part of a page, which is the only part that changes while the page is open."""
        return self._environment.get_template(template).render(values, layout="bare.html")


def render_age(moment: datetime | None, now: datetime) -> Markup:
    """Return how long ago a time was, as an element that the page's script keeps up to date; empty for None."""
    return Markup() if moment is None else _render_time("age", moment, format_age(moment, now))


def render_until(moment: datetime | None, now: datetime) -> Markup:
    """Return how long it is until a time, as an element that the page's script keeps up to date; empty for None."""
    return Markup() if moment is None else _render_time("until", moment, format_age(now, moment))


def render_offset(moment: datetime, start: datetime) -> Markup:
    """Return the time between the start of a job's life and a later time, as an HTML element."""
    return _render_time("offset", moment, format_age(start, moment))


def _render_time(kind: str, moment: datetime, text: str) -> Markup:
    """Return a text about a time as a `time` element, whose tooltip a script converts to the viewer's time zone."""
    at = moment.astimezone(UTC)
    since, title = at.isoformat(timespec="seconds"), at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return make_element("time", {"class": kind, "datetime": since, "title": title}, text)


def render_duration(seconds: float | None) -> str:
    """Return a duration in seconds as text such as `3h20m`; "" for None."""
    return "" if seconds is None else format_duration(int(seconds))
