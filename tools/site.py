"""Builds the documentation site of this checkout into build/site/VERSION, strictly: a broken link or anchor fails.

    python -m tools.site                 # as the version that pyproject.toml names
    python -m tools.site --version 0.2   # beside the versions that build/site has already

The navigation is that of mkdocs.yml, without pages that are gone and with a section "More" for pages that it does not
name. `build/site` is what a web server serves: it offers every version built so far, and leads to the newest.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"


def complete_navigation(navigation: list[Any], pages: set[str]) -> list[Any]:
    """Return the navigation without pages that there are not, and with those that it lacks under "More"."""
    kept = list(_keep(navigation, pages))
    missing = sorted(pages - set(list_pages(kept)))
    return [*kept, {"More": missing}] if missing else kept


def list_pages(navigation: list[Any]) -> Iterator[str]:
    """Yield the pages of a navigation, in order."""
    for entry in navigation:
        target = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(target, list):
            yield from list_pages(target)
        else:
            yield target


def _keep(navigation: list[Any], pages: set[str]) -> Iterator[Any]:
    for entry in navigation:
        title, target = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(target, list):
            if below := list(_keep(target, pages)):
                yield {title: below}
        elif target in pages:
            yield entry


def list_versions(names: set[str]) -> list[str]:
    """Return versions from the newest to the oldest, by their numbers."""
    return sorted(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)


def read_version() -> str:
    """Return the version that pyproject.toml names, which is the one place that names it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert isinstance(version, str)
    return version


def build(version: str, site: Path) -> None:
    """Build the pages of this checkout into `site`/`version`, and let `site` lead to the newest version."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    docs = ROOT / settings["docs_dir"]
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    settings |= {
        "site_dir": str((site / version).relative_to(ROOT)),
        "nav": complete_navigation(settings["nav"], pages),
    }
    shutil.rmtree(site / version, ignore_errors=True)
    # The builder takes the folder of its settings for the root of all paths.
    with tempfile.NamedTemporaryFile("w", dir=ROOT, prefix=".site-", suffix=".yml") as file:
        yaml.safe_dump(settings, file, sort_keys=False)
        file.flush()
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", file.name]
        subprocess.run(command, cwd=ROOT, check=True)
    # Pages link to files beside docs/; seen from a page, they lie beside the version's folder.
    shutil.copytree(ROOT / "examples", site / "examples", dirs_exist_ok=True)
    versions = list_versions({folder.parent.name for folder in site.glob("*/404.html")})
    listed = [{"version": name, "title": name, "aliases": ["latest"][: name == versions[0]]} for name in versions]
    (site / "versions.json").write_text(json.dumps(listed))
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={versions[0]}/">\n')


def main() -> None:
    """Build, or leave with the exit code of the builder."""
    parser = argparse.ArgumentParser(description="Build the documentation site into build/site.")
    parser.add_argument("--version", default=read_version(), help="name of the version (default: %(default)s)")
    try:
        build(parser.parse_args().version, SITE)
    except subprocess.CalledProcessError as failed:
        sys.exit(failed.returncode)


if __name__ == "__main__":
    main()
