"""`kubectl_complete-muster`: the program that kubectl runs to complete `kubectl muster ...`.

kubectl (1.26 and newer) passes the words after `muster`, with the word at the cursor last. It reads one completion from
each line, and a last line of `:` and a number with flags for the shell.
"""

import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, ShellComplete

# A value of cobra's ShellCompDirective.
_DEFAULT, _NO_FILES, _DIRECTORIES = 0, 4, 16


def answer_kubectl(words: Sequence[str]) -> list[str]:
    """Return the completions of a command line of `kubectl muster`, as lines in the format that kubectl reads."""
    from muster.cli.main import PROGRAM, cli

    *before, incomplete = words or [""]
    items = ShellComplete(cli, {}, PROGRAM, "").get_completions(before, incomplete)
    kinds = {item.type for item in items}
    directive = _DEFAULT if "file" in kinds else _DIRECTORIES if "dir" in kinds else _NO_FILES
    return [*(_format_item(item) for item in items if item.type == "plain"), f":{directive}"]


def _format_item(item: CompletionItem[str]) -> str:
    return f"{item.value}\t{item.help}" if item.help else item.value


def main() -> None:
    """Print the completions of the command line in this process's arguments."""
    click.echo("\n".join(answer_kubectl(sys.argv[1:])))
