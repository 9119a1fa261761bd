"""Writes docs/reference anew: run `python -m tools.reference` after a change of help, settings or docstrings."""

from pathlib import Path

from tools.reference.commands import render_commands
from tools.reference.configuration import render_configuration
from tools.reference.python import render_python

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {"commands.md": render_commands, "configuration.md": render_configuration, "python.md": render_python}
MARK = "<!-- Made by `python -m tools.reference`: change the source, not this page. -->"


def render_page(name: str) -> str:
    """Return the text of a page."""
    lines = PAGES[name]()
    return "\n".join([MARK, "", *lines]).rstrip() + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / name).write_text(render_page(name))
