"""What surrounds the project: the files that a forge, a package index and a citation manager read fit each other."""

import tomllib
from pathlib import Path

import pytest
import yaml

from muster.api.ours.release import VERSION

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_named_in_one_place_and_repeated_where_others_need_it():
    version = PROJECT["version"]
    chart = yaml.safe_load((ROOT / "deploy/helm/muster/Chart.yaml").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (chart["version"], chart["appVersion"], citation["version"]) == (version, version, version)
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version {version}." in (ROOT / "README.md").read_text()
    assert version == VERSION


def test_the_changelog_begins_with_what_is_not_released():
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[:2] == ["## Unreleased", f"## {PROJECT['version']}"]


def test_a_citation_names_the_licence_and_the_page_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["license"], citation["url"]) == (PROJECT["license"], PROJECT["urls"]["Homepage"])
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow_runs_scripts_that_are_there(name):
    workflow = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    scripts = [word for step in steps for word in step.get("run", "").split() if word.startswith(".ci/")]
    assert scripts
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)


def test_a_release_shows_the_pages_of_packages_that_work():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    assert jobs["site"]["needs"] == "packages"


def test_the_workflow_runs_what_contributors_run():
    [job] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert job["strategy"]["matrix"]["python"][0] == oldest


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.name
)
def test_a_form_asks_questions(form):
    """GitHub refuses a form without name and description, or with an input that has no label."""
    document = yaml.safe_load(form.read_text())
    assert document["name"]
    assert document["description"]
    assert all(field["attributes"]["label"] for field in document["body"])
    assert len({field["id"] for field in document["body"]}) == len(document["body"])
