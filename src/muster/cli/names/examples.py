"""The examples at the end of a help page."""


def examples(*lines: str) -> str:
    """An epilog for click, of lines as a user would type them; a remark stands behind `#`."""
    # \b keeps click from filling the lines into one.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
