"""Parse booleans as Go does. Pure."""

# The strings that Go's strconv.ParseBool accepts, with their values.
_BOOLEANS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def parse_boolean(text: str) -> bool | None:
    """Return the value of a text, as Go's strconv.ParseBool reads it; None if the text is invalid."""
    return _BOOLEANS.get(text)
