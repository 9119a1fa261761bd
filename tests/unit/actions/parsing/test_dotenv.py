"""Variables in files."""

import pytest

from muster.actions.parsing.dotenv import MOST_BYTES, DotenvError, parse_variables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nB=two words \n", {"A": "1", "B": "two words"}),
        ("# A=1\n\n  export B = x # why\r\nC=x#y\n", {"B": "x", "C": "x#y"}),
        ('A=\'$X \\n\' # c\nB="$X \\n\\"\\\\\\$\\z"\nC=$X', {"A": "$X \\n", "B": '$X \n"\\$\\z', "C": "$X"}),
        ("A=\nB=''\nC=#x\nD==", {"A": "", "B": "", "C": "", "D": "="}),
        ("A=1\nA=2", {"A": "2"}),
        ("\ufeffA=ü", {"A": "ü"}),
        ("export=1", {"export": "1"}),
        ("a.b-c=1", {"a.b-c": "1"}),
        ("A=it's", {"A": "it's"}),
        ('A="one\n two # \\"\n" # why\nB=\'x\r\n\r\ny\'\nC=1', {"A": 'one\n two # "\n', "B": "x\n\ny", "C": "1"}),
        ("# A='\nB='#'\n", {"B": "#"}),
    ],
)
def test_lines(text, expected):
    assert parse_variables(text.encode()) == expected


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"A=1\nsecret", "line 2: expected NAME=VALUE"),
        (b"=1", "line 1: expected NAME=VALUE"),
        (b"\x1b[2J=1", "line 1: expected NAME=VALUE"),
        (b"A='x", "line 1: a quote that is not closed, or is followed by more than a comment"),
        (b'A="x\ny"z\n', "line 1: a quote"),
        (b"A='x\n\ny'\nsecret", "line 4: expected NAME=VALUE"),
        (b'A="x"y', "line 1: a quote"),
        (b"A=1\n\nB=\xff", "line 3: it is not UTF-8"),
        (b"A=\0", "line 1: no variable can have a zero byte"),
        (b"A=" + b"x" * MOST_BYTES, f"the file has more than {MOST_BYTES} bytes"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(data, complaint):
    with pytest.raises(DotenvError) as refused:
        parse_variables(data)
    assert str(refused.value).startswith(complaint)
    assert "secret" not in str(refused.value)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", ['A="' + "\\" * 900_001, " " * 900_000 + "x", "A='" + "'" * 900_000, "A " * 500_000])
def test_long_lines_are_refused_in_time_that_grows_with_them(line):
    with pytest.raises(DotenvError, match=r"^line 1: "):
        parse_variables(line.encode())
