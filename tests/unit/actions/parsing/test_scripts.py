"""Job scripts: which lines are options, and what runs the text."""

import pytest

from muster.actions.parsing.scripts import (
    MOST_BYTES,
    Directive,
    Script,
    ScriptError,
    find_misspelt_marks,
    has_directives,
    list_directives,
    make_command,
    read,
)


def lines(text):
    return [(line.number, list(line.words)) for line in list_directives(Script("job.sh", text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "#!/bin/sh\n#MUSTER --workers 4\n\n# note\n#MUSTER\t-t 2h # why\necho\n",
            [(2, ["--workers", "4"]), (5, ["-t", "2h"])],
        ),
        ("#MUSTER --name 'a b' \"c\"\n", [(1, ["--name", "a b", "c"])]),
        ("#!/bin/sh\necho\n#MUSTER --workers 4\n", []),
        ("##MUSTER -w 1\n# MUSTER -w 1\n#MUSTERS\n#muster -w 1\n #MUSTER -w 1\n", []),
        ("#MUSTER\n", [(1, [])]),
        ("", []),
    ],
)
def test_lines_before_the_first_that_is_run_are_options(text, expected):
    assert lines(text) == expected
    assert has_directives(text.encode()) == bool(expected)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("#SBATH -n 4", "#SBATCH"),
        ("#sbatch --nodes=2", "#SBATCH"),
        ("#MUSTR --workers 4", "#MUSTER"),
        ("#SBATCH -n 4", ""),
        ("##SBATCH -n 4", ""),
        ("# SBATCH -n 4", ""),
        ("#SBATH of a batch", ""),
        ("#Usage -h", ""),
    ],
)
def test_options_behind_a_misspelt_mark(line, meant):
    data = f"#!/bin/sh\n{line}\necho\n{line}\n".encode()
    assert list(find_misspelt_marks(data)) == ([(2, line.split()[0], meant)] if meant else [])


def test_a_quote_without_an_end_is_said_with_its_line():
    with pytest.raises(ScriptError, match=r"^job.sh, line 2: no closing quotation$"):
        lines("#!/bin/sh\n#MUSTER --name 'x\n")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/bin/bash -e", ["/bin/bash", "-e", "-c", "TEXT", "job.sh", "a"]),
        ("#! /usr/bin/env bash", ["/usr/bin/env", "bash", "-c", "TEXT", "job.sh", "a"]),
        ("#!/usr/bin/env -S python3.11 -u", ["/usr/bin/env", "-S", "python3.11", "-u", "-c", "TEXT", "a"]),
        ("#!/usr/bin/perl", ["/usr/bin/perl", "-e", "TEXT", "a"]),
        ("#MUSTER -w 1", ["sh", "-c", "TEXT", "job.sh", "a"]),
        ("#!", ["sh", "-c", "TEXT", "job.sh", "a"]),
    ],
)
def test_the_first_line_says_what_runs_the_text(first, words):
    text = f"{first}\nrest $1\n"
    assert make_command(Script("job.sh", text), ["a"]) == [text if word == "TEXT" else word for word in words]


@pytest.mark.parametrize("first", ["#!/usr/bin/awk -f", "#!/usr/bin/env", "#!/opt/own"])
def test_what_can_be_given_no_text_is_refused(first):
    with pytest.raises(ScriptError, match=r"^job.sh, line 1: a job script is for a shell, Python"):
        make_command(Script("job.sh", first), [])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            b"#" * (MOST_BYTES + 1),
            "job.sh has more than 131071 bytes, the most that a job can carry; let it call the rest",
        ),
        (b"#!/bin/sh\n\0", "job.sh is no script: it has zero bytes"),
        (b"#!/bin/sh\n\xff\n", "job.sh, line 2: it is not UTF-8, and a job can only carry text"),
    ],
)
def test_what_no_job_can_carry_is_refused(data, complaint):
    with pytest.raises(ScriptError) as refused:
        read("job.sh", data)
    assert str(refused.value) == complaint


def test_marks_and_ends_of_lines_of_other_systems_are_no_part_of_the_text():
    assert read("job.sh", "\ufeff#MUSTER -w 1\r\necho ü\r\n".encode()) == Script("job.sh", "#MUSTER -w 1\necho ü\n")
    assert list(list_directives(read("job.sh", b"#MUSTER -w 1\r\n"))) == [Directive(1, ("-w", "1"))]


ODD = [b"#" * MOST_BYTES, b"\n" * MOST_BYTES, b"#MUSTER" + b" '" * 60_000, b"\x7fELF" + b"\xff" * MOST_BYTES]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("data", ODD)
def test_odd_files_are_looked_at_in_a_moment(data):
    assert has_directives(data) == data.startswith(b"#MUSTER")
