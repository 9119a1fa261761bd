"""Renders templates. Every value is escaped: names, labels, messages and output are what strangers wrote."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from muster.charts.markup import Markup, element
from muster.dashboard.statics import url_of_static
from muster.dashboard.visits import address
from muster.insight.text import format_age, format_span

_MENU = (
    ("overview", "Overview", ()),
    ("jobs", "Jobs", ("jobs",)),
    ("queues", "Queues", ("queues",)),
    ("nodes", "Nodes", ("nodes",)),
    ("history", "History", ("history",)),
    ("clusters", "Clusters", ("clusters",)),
    ("simulations", "Simulations", ("simulations",)),
)


class Renderer:
    """The templates of the dashboard."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("muster.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {"address": address, "static": url_of_static, "menu": _MENU}
        self._environment.filters |= {"age": render_age, "span": render_span, "moment": render_moment}

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a whole page."""
        return self._environment.get_template(template).render(values, layout="base.html")

    def render_main(self, template: str, values: Mapping[str, Any]) -> str:
        """Return what stands in the main part of a page, which is all that changes while the page is open."""
        return self._environment.get_template(template).render(values, layout="bare.html")


def render_age(moment: datetime | None, now: datetime) -> Markup:
    """Return how long ago something was, as an element that the page keeps up to date by itself."""
    if moment is None:
        return Markup()
    since = moment.astimezone(UTC).isoformat(timespec="seconds")
    return element("time", {"class": "age", "datetime": since}, format_age(moment, now))


def render_moment(moment: datetime | None) -> Markup:
    """Return a moment in UTC, which the page shows in the viewer's own time zone."""
    if moment is None:
        return Markup()
    at = moment.astimezone(UTC)
    since = at.isoformat(timespec="seconds")
    return element("time", {"class": "moment", "datetime": since}, at.strftime("%Y-%m-%d %H:%M:%S UTC"))


def render_span(seconds: float | None) -> str:
    """Return a length of time; "" for none."""
    return "" if seconds is None else format_span(int(seconds))
