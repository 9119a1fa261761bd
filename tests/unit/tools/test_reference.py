"""The reference pages say what the sources say today, of every command, field and public name."""

import re

import click
import pytest
from tools.reference.__main__ import FOLDER, PAGES, render_page
from tools.reference.commands import find_commands
from tools.reference.python import list_names

import muster
from muster.api.config import load
from muster.cli.main import cli

ADVICE = "run `python -m tools.reference` after a change of help, settings or docstrings"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_made_from_the_sources_as_they_are(name: str) -> None:
    assert (FOLDER / name).read_text() == render_page(name), ADVICE


def test_every_command_has_its_heading_usage_and_options() -> None:
    page = render_page("commands.md")
    for context in find_commands(click.Context(cli, info_name="muster")):
        _, _, section = page.partition(f"# {context.command_path}\n")
        section = section.partition("\n#")[0]
        assert f"```\n{context.command_path}" in section
        options = [one for one in context.command.params if isinstance(one, click.Option) and not one.hidden]
        assert [name for one in options for name in one.opts if name not in section] == []


def test_every_public_name_is_described() -> None:
    assert set(muster.__all__) <= list_names()
    page = render_page("python.md")
    assert [name for name in list_names() if f"## muster.{name}\n" not in page] == []


def test_the_file_that_the_page_shows_is_a_configuration() -> None:
    for text in re.findall(r"```yaml\n(.*?)```", render_page("configuration.md"), re.DOTALL):
        assert load(text).warnings == ()


ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (?:`(.*?)`)? \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("section", "field", "type_", "default"),
    [
        ("waitForPodsReady", "timeout", "duration", "30m0s"),
        ("waitForPodsReady.requeuingStrategy", "timestamp", "`Creation` or `Eviction`", "Eviction"),
        ("integrations", "frameworks", "list of string", '["batch/job"]'),
        ("muster.scheduling", "overtakings", "integer", "32"),
        ("resources.transformations[]", "outputs", "map to quantity", ""),
    ],
)
def test_a_field_has_its_type_and_default(section: str, field: str, type_: str, default: str) -> None:
    _, _, text = render_page("configuration.md").partition(f"\n## {section}\n")
    rows = {row[1]: row for row in ROW.finditer(text.partition("\n## ")[0])}
    assert (rows[field][2], rows[field][3] or "") == (type_, default)


def test_every_field_has_a_meaning() -> None:
    page = render_page("configuration.md")
    assert [row[0] for row in ROW.finditer(page) if not row[4]] == []
    assert "The number of workers by kind. Has no effect: the engine chooses the number of its workers itself." in page


def test_fields_of_the_older_version_alone_are_left_out() -> None:
    page = render_page("configuration.md")
    assert "`queueVisibility`" not in page
    assert "`podOptions`" not in page
