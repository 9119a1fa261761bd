from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values.quantity import (
    QuantityError,
    format_amount,
    format_canonical,
    parse,
    parse_amount,
    parse_thousandths,
    parse_whole_units,
    round_up_to_milli,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("1.", 1),
        (".", 0),
        ("500m", Fraction(1, 2)),
        ("100u", Fraction(1, 10_000)),
        ("3n", Fraction(3, 10**9)),
        ("1k", 1000),
        ("2M", 2_000_000),
        ("1E", 10**18),
        ("100E", 10**20),
        ("1Ki", 1024),
        ("1.5Gi", 1536 * 2**20),
        ("2Ei", 2**61),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-3", Fraction(12, 1000)),
        ("1e+2", 100),
        # finer than a billionth is rounded away from zero
        ("0.0000000001", Fraction(1, 10**9)),
        ("-0.0000000001", Fraction(-1, 10**9)),
        ("1e-30", Fraction(1, 10**9)),
        # more than fits into 64 bits, with a binary suffix, is cut off
        ("100Ei", 2**63 - 1),
        (0.5, Fraction(1, 2)),
        (2, 2),
        (1e-7, Fraction(1, 10**7)),
    ],
)
def test_parse(text: Any, number: Any) -> None:
    assert parse(text) == number


_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", _FORMAT),
        (" 1", _FORMAT),
        ("1 ", _FORMAT),
        ("1\n", _FORMAT),
        ("1.2.3", _FORMAT),
        ("one", _FORMAT),
        ("1Kb", _FORMAT),
        ("\u0661", _FORMAT),  # a digit, but not one of ours
        ("9" * 1000, _FORMAT),
        ("--1", "unable to parse quantity's suffix"),
        ("1ki", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1ee3", "unable to parse quantity's suffix"),
        ("1m3", "unable to parse quantity's suffix"),
        ("1e999999999", "unable to parse quantity's suffix"),
    ],
)
def test_parse_refuses(text: Any, sentence: Any) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("1023", "1023"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("2000000", "2M"),
        ("0.1Ki", "102400m"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("1.5e3", "1500"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1.5", "-1500m"),
        ("1000E", "1000E"),
        ("0.0001Ki", "102400u"),
        (2000, "2k"),
        (0.1, "100m"),
        # What upstream's parser takes for canonical stays as it is written.
        ("12E6", "12E6"),
        ("1000E3", "1e6"),
        ("1e+3", "1e+3"),
        ("1e4", "10e3"),
        ("1e0", "1e0"),
        ("+1", "+1"),
        ("+0", "0"),
        ("+5Ki", "+5Ki"),
        ("+8Ki", "8Ki"),
        ("010", "010"),
        ("01000", "1k"),
        ("1.", "1."),
        ("1.0", "1"),
        ("1.500", "1.500"),
    ],
)
def test_canonical(quantity: Any, text: Any) -> None:
    assert format_canonical(quantity) == text


@pytest.mark.parametrize(
    ("quantity", "in_milli", "in_units"),
    [
        ("1", 1000, 1),
        ("1m", 1, 1),
        ("1u", 1, 1),
        ("1001m", 1001, 2),
        ("2Gi", 2**31 * 1000, 2**31),
        ("-1500m", -1500, -1),
    ],
)
def test_rounding_is_up(quantity: Any, in_milli: Any, in_units: Any) -> None:
    assert (parse_thousandths(quantity), parse_whole_units(quantity)) == (in_milli, in_units)


@pytest.mark.parametrize(
    ("resource", "quantity", "number", "text"),
    [
        ("cpu", "1500m", 1500, "1500m"),
        ("cpu", "2", 2000, "2"),
        ("memory", "2Gi", 2**31, "2Gi"),
        ("memory", "1G", 10**9, "1000000000"),
        ("ephemeral-storage", "10Ki", 10240, "10Ki"),
        ("hugepages-2Mi", "4Mi", 4 * 2**20, "4Mi"),
        ("nvidia.com/gpu", "4", 4, "4"),
        ("pods", "110", 110, "110"),
    ],
)
def test_amounts_and_back(resource: Any, quantity: Any, number: Any, text: Any) -> None:
    assert parse_amount(resource, quantity) == number
    assert format_amount(resource, number) == text
    assert parse_amount(resource, text) == number


def test_requests_are_kept_in_thousandths() -> None:
    assert round_up_to_milli("1u") == "1m"
    assert round_up_to_milli("0.0004Ki") == "410m"
    assert round_up_to_milli("1Gi") == "1Gi"


_SUFFIXES = st.sampled_from(
    ["", "m", "u", "n", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "e2", "E-3", "e+6"]
)
_NUMBERS = st.from_regex(r"\A[+-]?[0-9]{1,12}(\.[0-9]{0,6})?\Z")


@given(_NUMBERS, _SUFFIXES)
def test_canonical_form_says_the_same_and_is_final(number: Any, suffix: Any) -> None:
    text = number + suffix
    once = format_canonical(text)
    assert parse(once) == parse(text)
    assert format_canonical(once) == once


@given(_NUMBERS, _SUFFIXES)
def test_units_are_the_ceiling(number: Any, suffix: Any) -> None:
    exact = parse(number + suffix)
    assert parse_whole_units(number + suffix) - 1 < exact <= parse_whole_units(number + suffix)
    assert parse_thousandths(number + suffix) - 1 < exact * 1000 <= parse_thousandths(number + suffix)


@given(st.sampled_from(["cpu", "memory", "example.com/tpu"]), st.integers(0, 2**62))
def test_every_amount_has_a_text(resource: Any, number: Any) -> None:
    assert parse_amount(resource, format_amount(resource, number)) == number


@given(st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: Any) -> None:
    with suppress(QuantityError):
        parse(text)
