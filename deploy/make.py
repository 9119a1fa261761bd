"""Writes `deploy/kustomize` and `deploy/helm` anew: run `python -m deploy.make` after a change of what is installed."""

from pathlib import Path

from deploy.chart import chart_files
from deploy.kustomization import kustomize_files
from deploy.prometheus import monitoring_files

HERE = Path(__file__).parent
MARK = "Made by `python -m deploy.make`"
# By folder: the files in it that this makes. Files without the mark are written by hand.
MADE = {"kustomize": kustomize_files, "helm/muster/templates": chart_files, "monitoring": monitoring_files}


def main() -> None:
    """Write the files, and remove those that are not made any more."""
    for folder, make in MADE.items():
        files = make()
        for path in sorted((HERE / folder).rglob("*")):
            name = str(path.relative_to(HERE / folder))
            if path.is_file() and name not in files and MARK in path.read_text():
                path.unlink()
        for name, text in files.items():
            (HERE / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (HERE / folder / name).write_text(text)


if __name__ == "__main__":
    main()
