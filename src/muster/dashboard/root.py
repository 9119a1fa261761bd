"""The path below which all pages of the dashboard are."""

from typing import Final

ROOT: Final = "/ui"
