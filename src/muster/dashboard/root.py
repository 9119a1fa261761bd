"""Name the path below which all pages are."""

from typing import Final

ROOT: Final = "/ui"
