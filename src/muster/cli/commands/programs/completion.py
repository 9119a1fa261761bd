"""`muster completion`: print the script that makes a shell complete this command."""

import click

from muster.cli.names.examples import format_examples

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=format_examples(
        "source <(muster completion bash)      # a line for ~/.bashrc",
        "source <(muster completion zsh)       # a line for ~/.zshrc, below compinit",
        "muster completion fish > ~/.config/fish/completions/muster.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script with which a shell completes commands, options, and the names of jobs, queues and namespaces."""
    from click.shell_completion import get_completion_class

    from muster.cli.main import COMPLETE_VARIABLE, PROGRAM, cli

    completion = get_completion_class(shell)
    assert completion is not None, shell
    script = completion(cli, {}, PROGRAM, COMPLETE_VARIABLE).source()
    # With click's own script, a description in fish ends at its first comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'), nl=False)
