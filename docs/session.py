"""Draws `docs/session.svg`: what a terminal shows when these commands are really run.

    python docs/session.py

A throw-away home is used; `muster` must be installed in the environment that runs this.
"""

import io
import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "muster run --workers 4 -- python examples/train_digits.py",
    "muster up --detach",
    "muster run --detach --workers 2 --cpus 64 --name too-big -- python train.py",
    "muster apply -f examples/jobs/indexed.yaml --wait",
    "muster ps",
    "muster down",
)


def shown(command: str, home: str) -> str:
    """Return what the command prints on a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"MUSTER_HOME": home, "PATH": path, "TERM": "xterm-256color", "COLUMNS": "110"}
        environment.pop("KUBECONFIG", None)
        os.execvpe("sh", ["sh", "-c", command], environment)  # noqa: S606
    output = b""
    try:
        while piece := os.read(terminal, 65536):
            output += piece
    except OSError:  # how a terminal says that nobody is at the other end any more
        os.close(terminal)
    os.waitpid(pid, 0)
    return output.decode().replace("\r\n", "\n").replace(home, "~/.muster")


def main() -> None:
    """Run the commands and draw."""
    console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as home:
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            text = shown(command, home)
            # The middle of the training says nothing new.
            text = re.sub(r"(?m)(^.*epoch (?: [4-9]|1[01]) .*\n)+", "...\n", text)
            console.print(Text.from_ansi(text.rstrip("\n")))
            console.print()
    drawing = console.export_svg(title="muster")
    # The reader's own monospaced font will do: a picture fetches nothing.
    drawing = re.sub(r"<!--.*?-->|@font-face \{.*?\}", "", drawing, flags=re.DOTALL)
    (ROOT / "docs" / "session.svg").write_text(drawing)


if __name__ == "__main__":
    main()
