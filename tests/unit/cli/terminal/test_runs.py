"""What ran, as people and programs read it."""

import csv
from datetime import UTC, datetime, timedelta

import pytest

from muster.cli.terminal.runs import as_table
from muster.insight.history.csvfile import format_csv
from muster.insight.history.runs import Run, make_row

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(**about):
    said = {"uid": "u", "namespace": "lab", "name": "train", "kind": "JobSet", "state": "Failed"} | about
    return make_row(Run(submitted=START, ended=START + timedelta(hours=3), **said))


def test_a_line_says_what_became_of_it() -> None:
    started = START + timedelta(seconds=90)
    said = run(started=started, owner="ada", queue="q", exit_code=3, command="python t.py", reason="rank 0 ended")
    header, line = as_table([said], everywhere=True, wide=False).split("\n")
    assert header.split() == ["NAMESPACE", "SUBMITTED", "NAME", "STATE", "EXIT", "OWNER", "QUEUE", "WAITED", "TIME",
                              "COMMAND", "REASON"]  # fmt: skip
    assert "Failed   3      ada     q       90s      178m   python t.py   rank 0 ended" in line


@pytest.mark.parametrize(
    ("about", "mean"),
    [
        ({"cpu_seconds": 4320.0}, 1.2),
        ({}, None),
        ({"cpu_seconds": 1.0, "started": None}, None),
        ({"cpu_seconds": 4320.0, "interruptions": 1}, None),  # the time of the attempts before is not known
    ],
)
def test_it_says_how_many_cpus_were_asked_for_and_used(about, mean) -> None:
    said = run(**{"started": START + timedelta(hours=2), "requested_cpus": 8.0, **about})
    assert (said["meanCpus"], said["requestedCpus"]) == (mean, 8.0)
    header, line = as_table([said], everywhere=False, wide=True).split("\n")
    assert line[header.index("CPUS USED") :].split()[:2] == ["-" if mean is None else "1.2", "8"]


def test_nothing_in_it_can_steer_a_terminal() -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202egnp\n\r\0"
    rows = [run(name=evil, owner=evil, queue=evil, command=evil, reason=evil, nodes=("n",))]
    for text in (as_table(rows, everywhere=True, wide=True), format_csv(rows)):
        assert len(text.strip().split("\n")) == 2
        assert text.replace("\n", "").isprintable()
        assert r"\x1b]0;owned\x07\x9b31m\u202egnp\n\r\x00" in text


@pytest.mark.parametrize(("command", "shown"), [("x" * 40, "x" * 40), ("x" * 41, "x" * 39 + "…"), ("\n" * 21, None)])
def test_a_long_command_is_cut_where_others_stand_beside_it(command, shown) -> None:
    line = as_table([run(command=command)], everywhere=False, wide=False).split("\n")[1]
    assert line.endswith(shown or "\\n" * 19 + "\\…")
    assert (command in as_table([run(command=command)], everywhere=False, wide=True)) == ("x" in command)


ALL = ["SUBMITTED", "NAME", "STATE", "EXIT", "OWNER", "QUEUE", "WAITED", "TIME", "COMMAND"]


@pytest.mark.parametrize(
    ("width", "left_off", "shown"),
    [
        (0, set(), 40),
        (200, set(), 40),
        (100, set(), 25),
        (87, set(), 12),
        (86, {"WAITED"}, 20),
        (77, {"WAITED", "QUEUE"}, 19),
        (69, {"WAITED", "QUEUE", "OWNER"}, 19),
        (61, {"WAITED", "QUEUE", "OWNER", "EXIT"}, 18),
        (40, {"WAITED", "QUEUE", "OWNER", "EXIT"}, 12),
    ],
)
def test_a_line_takes_no_more_than_the_terminal_has(width: int, left_off: set[str], shown: int) -> None:
    text = as_table([run(command="x" * 60, reason="it failed")], everywhere=False, wide=False, width=width)
    header, line, *below = text.split("\n")
    assert header.split() == [name for name in ALL if name not in left_off] + ["REASON"] * (not below)
    assert f"   {'x' * (shown - 1)}…" in line
    assert (width, below) in ((0, []), (200, []), (width, ["   it failed"]))
    assert len(line) <= width or width in (0, 40)


def test_only_a_wide_line_says_the_second_on_a_terminal() -> None:
    long, short = f"{START.astimezone():%Y-%m-%d %H:%M:%S}", f"{START.astimezone():%Y-%m-%d %H:%M}"
    for wide, width, shown in ((False, 0, long), (True, 80, long), (False, 80, f"{short}   ")):
        assert shown in as_table([run()], everywhere=False, wide=wide, width=width)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://x","y")'])
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str) -> None:
    found = list(csv.DictReader(format_csv([run(command=text, owner=text, exit_code=-1)]).splitlines()))
    assert (found[0]["command"], found[0]["owner"], found[0]["exitCode"]) == (f"'{text}", f"'{text}", "-1")


def test_csv_is_quoted_and_read_as_it_was() -> None:
    said = run(command='sh -c "a, b; c"', nodes=("n1", "n2"), cpu_seconds=1.5, memory_bytes=1 << 20)
    [found] = csv.DictReader(format_csv([said]).splitlines())
    assert (found["command"], found["nodes"], found["cpuSeconds"]) == ('sh -c "a, b; c"', "n1 n2", "1.5")
    assert (found["submitted"], found["started"], found["waitedSeconds"]) == ("2026-01-02T03:04:05Z", "", "10800")
    assert list(found) == list(said)
    assert format_csv([]).count("\n") == 1


def test_a_long_owner_is_whole_in_the_wide_table_only() -> None:
    owner = "system:serviceaccount:lab:a-robot-with-a-long-name"
    assert "lab:a-robot-with-a-…" in as_table([run(owner=owner)], everywhere=False, wide=False)
    assert owner in as_table([run(owner=owner)], everywhere=False, wide=True)
