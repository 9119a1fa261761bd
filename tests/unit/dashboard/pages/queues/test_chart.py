"""The chart of a queue's use."""

from datetime import UTC, datetime, timedelta

from muster.dashboard.pages.queues.chart import SPANS, draw_use
from muster.insight.history.use import UseSpan, sum_use

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def draw(resource: str, *spans: UseSpan, limit: int | None = None, span: str = "day"):
    one = SPANS[span]
    return draw_use(sum_use(spans, NOW, one.length, one.steps), one, resource, limit)


def use(owner: str, amount: float) -> UseSpan:
    return UseSpan(owner, NOW - timedelta(hours=12), None, amount)


def test_each_user_has_a_layer_and_the_quota_a_line() -> None:
    figure = draw("cpu", use("ada", 4), use("<eve>", 2), limit=8000)
    assert [figure.chart.count(f'class="a{number}"') for number in (0, 1, 2)] == [1, 1, 0]
    assert "&lt;eve&gt;" in figure.legend
    assert "quota" in figure.legend
    assert "8 CPUs" in figure.chart
    assert not figure.is_empty


def test_the_chart_says_in_words_how_much_each_user_uses() -> None:
    chart = draw("cpu", use("ada", 4), use("bob", 2), limit=8000).chart
    assert "in CPUs: ada at most 4, 4 at the end; bob at most 2, 2 at the end; quota 8" in chart


def test_two_users_with_one_short_name_are_told_apart() -> None:
    legend = draw("cpu", use("unix:ada", 4), use("system:serviceaccount:muster-users:ada", 2)).legend
    assert "unix:ada" in legend
    assert "system:serviceaccount:muster-users:ada" in legend


def test_memory_is_in_gibibytes() -> None:
    assert "8 GiB" in draw("memory", use("ada", 8 << 30)).chart
    assert "quota" not in draw("memory", use("ada", 8 << 30)).legend


def test_time_is_counted_back_from_now() -> None:
    for span, first in (("hour", "1h ago"), ("day", "1d ago"), ("week", "7d ago")):
        chart = draw("cpu", span=span).chart
        assert first in chart
        assert ">now<" in chart


def test_nothing_used_is_empty() -> None:
    assert draw("cpu", limit=8000).is_empty
