"""Format the examples at the end of a help page."""


def format_examples(*lines: str) -> str:
    """Return an epilog for click from lines as a user would type them; a remark follows `#`."""
    # \b keeps click from joining the lines.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
