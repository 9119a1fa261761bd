"""Lines for a page, whatever programs print."""

import pytest

from muster.dashboard.jobs.printed import MOST_LINES, Tray, make_text
from muster.runtime.containerlogs import STDERR, STDOUT


def texts(batch):
    return [line.text for line in batch.lines]


def test_lines_come_once_with_worker_and_stream():
    tray = Tray()
    tray.add("0", STDOUT, b"a\nb\n")
    tray.add("1", STDERR, b"c\n")
    assert [(one.worker, one.is_error, one.text) for one in tray.take().lines] == [
        ("0", False, "a"), ("0", False, "b"), ("1", True, "c"),
    ]  # fmt: skip
    assert tray.take().lines == []


def test_a_line_in_parts_is_one_and_is_shown_unfinished_before():
    tray = Tray()
    tray.add("0", STDOUT, b"wor")
    assert [one.text for one in tray.take().unfinished] == ["wor"]
    tray.add("0", STDOUT, b"ld\nx")
    batch = tray.take()
    assert (texts(batch), [one.text for one in batch.unfinished]) == (["world"], ["x"])
    tray.finish()
    assert texts(tray.take()) == ["x"]


def test_a_progress_bar_is_its_last_state():
    tray = Tray()
    for percent in range(100):
        tray.add("0", STDOUT, b"\r%d %%" % percent)
    assert [one.text for one in tray.take().unfinished] == ["99 %"]
    tray.add("0", STDOUT, b"\rdone\n")
    assert texts(tray.take()) == ["done"]


def test_a_line_of_ten_megabytes_is_short_and_says_how_long_it_was():
    tray = Tray()
    for _ in range(1000):
        tray.add("0", STDOUT, b"x" * 10_000)
    assert sum(len(rest) for rest in tray._begun.values()) <= 32 * 1024, "little of it is kept"
    tray.add("0", STDOUT, b"\n")
    [text] = texts(tray.take())
    assert text.startswith("xxxx")
    assert text.endswith("… [cut: the line has 10.0 MB]")
    assert len(text) < 2_100


def test_of_very_many_lines_the_newest_stay_and_the_others_are_counted():
    tray = Tray()
    for number in range(100):
        tray.add("0", STDOUT, b"".join(b"%d\n" % (number * 1000 + one) for one in range(1000)))
    batch = tray.take()
    assert len(batch.lines) == MOST_LINES
    assert batch.lines[-1].text == "99999"
    assert batch.left_out == 100_000 - MOST_LINES
    assert tray.take().left_out == 0


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07text", "red text"),
        (b"a\tb", "a\tb"),
        (b"\x00\x07\x7f\xc2\x85", "\ufffd" * 4),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"<b>&amp;</b>", "<b>&amp;</b>"),
        ("ü€".encode(), "ü€"),
        (b"", ""),
        (b"\x1b", ""),
        (b"y" * 2_000, "y" * 2_000),
        (b"y" * 2_001, "y" * 2_000 + "… [cut: the line has 2,001 bytes]"),
    ],
)
def test_a_line_is_text(line, text):
    assert make_text(line) == text


def test_what_reverses_a_line_is_marked_and_other_scripts_stay():
    tray = Tray()
    tray.add("0", STDOUT, "a \u202egnp.exe \u2066b \u05e9\u05dc\u05d5\u05dd\n".encode())
    assert texts(tray.take()) == ["a \ufffdgnp.exe \ufffdb \u05e9\u05dc\u05d5\u05dd"]
