"""`kubectl_complete-muster`: how kubectl completes `kubectl muster ...`.

kubectl (1.26 and newer) runs it with the words behind `muster`, the one at the cursor last, and reads a line for each
completion and a last one, `:` and a number that says what the shell does besides.
"""

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete

# Of cobra's ShellCompDirective.
_DEFAULT, _NO_FILES, _DIRECTORIES = 0, 4, 16


def completions(words: Sequence[str]) -> list[str]:
    """The answer to kubectl, line by line."""
    from muster.cli.main import PROGRAM, cli

    *before, incomplete = words or [""]
    found = ShellComplete(cli, {}, PROGRAM, "").get_completions(before, incomplete)
    kinds = {item.type for item in found}
    directive = _DEFAULT if "file" in kinds else _DIRECTORIES if "dir" in kinds else _NO_FILES
    return [*(_line(item) for item in found if item.type == "plain"), f":{directive}"]


def _line(item: CompletionItem[str]) -> str:
    return f"{item.value}\t{item.help}" if item.help else item.value


def main() -> None:
    """The entry point."""
    click.echo("\n".join(completions(sys.argv[1:])))
