import pytest

from muster.api.values.patterns import PatternError, compile_pattern
from muster.cluster.apiserver.schema.formats import FORMATS


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^a$", ["a"], ["a\n", "ba", ""]),
        ("a", ["xax"], ["b"]),
        (r"^\$[$]$", ["$$"], ["$"]),
        (r"^[^\]$]+$", ["ab"], ["a]", "a$"]),
        (r"^\d\z", ["1"], ["١", "1\n"]),
        (r"^[]$]$", ["]", "$"], [""]),
        ("^a(?i)b|c$", ["aB", "ab", "C"], ["Ab", "c\n"]),
        ("^(x(?i)y)z$", ["xYz"], ["xYZ", "XYz"]),
        ("^(?:a|b)(?i)c$", ["aC"], ["AC"]),
    ],
)
def test_patterns_mean_what_re2_means(pattern: str, matching: list[str], other: list[str]) -> None:
    matches = compile_pattern(pattern)
    assert [text for text in matching + other if matches(text)] == matching


def test_what_was_asked_before_has_its_answer_again() -> None:
    matches, others = compile_pattern("^a+$"), compile_pattern("^b+$")
    texts = ["a", "b", "a" * 1000, "b" * 1000, "\N{CYRILLIC SMALL LETTER A}", ""]
    for _ in range(2):
        assert [matches(text) for text in texts] == [True, False, True, False, False, False]
        assert [others(text) for text in texts] == [False, True, False, True, False, False]


@pytest.mark.parametrize("pattern", ["(", ")", "a{2,1}", "a{1001}", "(?=a)", r"(a)\1", "(" * 2000, "\ud800", "[[:x:]]"])
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_a_pattern_that_others_take_ages_for() -> None:
    assert not compile_pattern("^(a+)+$")("a" * 1_000_000 + "b")
    assert not compile_pattern("a")("\ud800")


@pytest.mark.parametrize(
    ("format_", "right", "wrong"),
    [
        (
            "date-time",
            ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789+01:00"],
            ["2026-01-02", "2026-13-02T03:04:05Z"],
        ),
        ("date", ["2026-01-02"], ["2026-02-30", "20260102"]),
        ("byte", ["", "aGk=", "aG\nk="], ["a", "*"]),
        ("duration", ["1h", "1h30m", "3 days"], ["", "h", "1x"]),
        ("ipv4", ["1.2.3.4"], ["1.2.3", "::1"]),
        ("ipv6", ["::1"], ["1.2.3.4"]),
        ("cidr", ["10.0.0.0/8", "10.1.2.3/8"], ["10.0.0.0", "x/8"]),
        ("uuid", ["b6a0718858876bbf8cedaeeb47e6de7e", "b6a07188-5887-6bbf-8ced-aeeb47e6de7e"], ["b6a0"]),
        ("uri", ["https://x/y", "/y"], ["y", "http://["]),
        ("hostname", ["a.b-c.d", "a."], ["", "-a", "a..b", "a" * 64]),
        ("email", ["a@b"], ["a", "a b@c"]),
        ("mac", ["00:1a:2B:3c:4d:5e"], ["00:1a", "00:1a-2b:3c:4d:5e"]),
    ],
)
def test_formats(format_: str, right: list[str], wrong: list[str]) -> None:
    fits = FORMATS[format_]
    assert [text for text in right + wrong if fits(text)] == right
