from typing import Any

import pytest

from muster.api.validation import names

_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (
            names.dns_label,
            ["a", "0", "a-b", "a" * 63],
            {
                "": (_LABEL,),
                "A": (_LABEL,),
                "-a": (_LABEL,),
                "a\n": (_LABEL,),
                "a.b": ("must not contain dots",),
                "a" * 64: ("must be no more than 63 characters",),
            },
        ),
        (
            names.dns_subdomain,
            ["a", "a.b", "0.1", "a" * 253],
            {
                "": (_SUBDOMAIN,),
                "a..b": (_SUBDOMAIN,),
                "a_b": (_SUBDOMAIN,),
                "a" * 254: ("must be no more than 253 characters",),
            },
        ),
        (names.dns_1035_label, ["a", "a1"], {"1a": (_LABEL_1035,), "": (_LABEL_1035,)}),
        (
            names.label_key,
            ["a", "A_b.c", "example.com/a", "a" * 63],
            {
                "": ("name part must be non-empty", f"name part {_KEY}"),
                "a/": ("name part must be non-empty", f"name part {_KEY}"),
                "/a": ("prefix part must be non-empty",),
                "A.com/a": (f"prefix part {_SUBDOMAIN}",),
                "a" * 254 + "/b": ("prefix part must be no more than 253 bytes",),
                "a" * 64: ("name part must be no more than 63 bytes",),
                "-a": (f"name part {_KEY}",),
                "a/b/c": (
                    (
                        f"a valid label key {_KEY} with an optional DNS subdomain prefix and '/' "
                        "(e.g. 'example.com/MyName')"
                    ),
                ),
            },
        ),
        (names.label_value, ["", "a", "A-b_c.1"], {"a" * 64: ("must be no more than 63 bytes",)}),
        (
            names.config_key,
            ["a", "A.b-c_d", ".a"],
            {
                ".": ("must not be '.'",),
                "..": ("must not be '..'",),
                "..a": ("must not start with '..'",),
                "a/b": (
                    (
                        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
                        " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                    ),
                ),
            },
        ),
        (
            names.environment_variable,
            ["A", "a b", "1"],
            {
                "": ("environment variable name must be non-empty",),
                "a=b": (
                    "a valid environment variable name must consist only of printable ASCII characters other than '='",
                ),
            },
        ),
        (
            names.port_name,
            ["http", "a1", "p-1"],
            {
                "80": ("must contain at least one letter (a-z)",),
                "a--b": ("must not contain consecutive hyphens",),
                "a-": ("must not begin or end with a hyphen",),
                "a" * 16: ("must be no more than 15 characters",),
                "A": (
                    "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "must contain at least one letter (a-z)",
                ),
            },
        ),
        (names.port_number, [1, 65535], {0: ("must be between 1 and 65535, inclusive",)}),
        (names.user_or_group_id, [0, 2**31 - 1], {-1: ("must be between 0 and 2147483647, inclusive",)}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rules(rule: Any, good: Any, bad: Any) -> None:
    assert [rule(value) for value in good] == [()] * len(good)
    assert {value: rule(value) for value in bad} == bad


def test_lengths_are_bytes() -> None:
    assert names.label_value("\u00e9" * 32)[0] == "must be no more than 63 bytes"


def test_a_prefix_may_end_with_a_dash() -> None:
    assert names.check_prefix(names.dns_subdomain, "job-") == ()
    assert names.check_prefix(names.dns_subdomain, "-") != ()
    assert names.check_prefix(names.dns_subdomain, "Job-") != ()
