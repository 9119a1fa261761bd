"""How long it takes to let a colleague in: a user, a queue for that user, and the user's first job.

python benchmarks/colleague.py

Both know no page but `--help`. The benchmark ends if a command or an option that they type is not in the help that they
have read. The time is that of the commands, from the Enter to the next prompt. Reading and typing take longer, so the
lines of help are counted, too.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
# What each of the two types, in this order. `SENT` stands for the line that `muster user add` has printed.
SENT = "the line that the owner sent"
STEPS = (
    ("owner", "muster --help"),
    ("owner", "muster up --help"),
    ("owner", "muster up --detach --port 0"),
    ("owner", "muster user --help"),
    ("owner", "muster user add --help"),
    ("owner", "muster user add ada"),
    ("owner", "muster queue --help"),
    ("owner", "muster queue create --help"),
    ("owner", "muster queue create vision --cpus 1 --users ada"),
    ("ada", SENT),
    ("ada", "muster --help"),
    ("ada", "muster run --help"),
    ("ada", "muster run --name hello -- echo hello"),
    ("ada", "muster ps --help"),
    ("ada", "muster ps --all"),
)
COMMANDS = {"up", "user", "add", "queue", "create", "run", "ps"}


class Person:
    """Somebody with a home, who types commands and has read some help."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self._home = home
        self.help = ""

    def type_line(self, line: str) -> str:
        """Type a line, and return what it prints."""
        environ = {"HOME": str(self._home), "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", line], env=environ, cwd=self._home, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{line}: exit code {done.returncode}\n{done.stderr}")
        if line.endswith("--help"):
            self.help += done.stdout
        return done.stdout

    def require_help_for(self, line: str) -> None:
        """End the benchmark if this person has not read of a command or an option of a line."""
        words = line.partition(" -- ")[0].split()
        known = set(re.findall(r"[\w-]+", self.help)) | {"--help"}
        if unread := {word for word in words if word in COMMANDS or word.startswith("--")} - known:
            sys.exit(f"{line}: not in the help that was read: {', '.join(sorted(unread))}")


def type_step(person: Person, step: str, sent: str) -> str:
    """Type a step, print how long it took, and return what it printed."""
    if not step.endswith("--help"):
        person.require_help_for(step)
    began = time.perf_counter()
    shown = person.type_line(sent if step == SENT else step)
    print(f"{step:55} {time.perf_counter() - began:6.2f} s", flush=True)
    return shown


def main() -> None:
    """Play the steps, and print a line for each and the sums."""
    with tempfile.TemporaryDirectory(prefix="muster-colleague-") as directory:
        people = {name: Person(Path(directory, name)) for name in ("owner", "ada")}
        printed: dict[str, str] = {}
        began = time.perf_counter()
        try:
            for name, step in STEPS:
                printed[step] = type_step(people[name], step, printed.get("muster user add ada", ""))
            whole = time.perf_counter() - began
        finally:
            people["owner"].type_line("muster down --yes")
    last = printed["muster ps --all"]
    if not re.search(r"^hello +Completed +1/1 +vision ", last, re.MULTILINE):
        sys.exit(f"ada's job did not run in ada's queue:\n{last}")
    lines = sum(person.help.count("\n") for person in people.values())
    print(f"{f'all, with {lines} lines of help':55} {whole:6.2f} s")


if __name__ == "__main__":
    main()
