"""A small stand-in for systemd: it starts the command of an enabled unit, and starts it again after a failure.

It knows one unit.
"""

from pathlib import Path

_SYSTEMCTL = """#!/bin/sh
cd {state}
case " $* " in
  *--version*) echo "systemd 252 (252.1)";;
  *" enable "*) touch enabled;;
  *" disable "*) rm enabled;;
  *" start "*) setsid ./supervise > supervise.log 2>&1 < /dev/null &;;
  *MainPID*) cat main 2> /dev/null || echo 0;;
  *ActiveState*) if [ -e main ]; then echo active; else echo inactive; fi;;
  *UnitFileState*) if [ -e enabled ]; then echo enabled; else echo disabled; fi;;
esac
"""
_SUPERVISE = """#!/bin/sh
command=$(sed -n 's/^ExecStart=://p' {state}/{unit})
while :; do
  eval "$command &"
  echo $! > main.new && mv main.new main
  if wait $!; then break; fi
done
rm main
"""


def install_stand_in(state: Path, unit: str = "home/.config/systemd/user/muster.service") -> None:
    """Write the programs of the stand-in into a directory, which goes first in PATH.

    unit: the file of the unit below that directory, as a pattern of sh; by default, that of the user with the home
    `home` there. The directory gets the files `enabled`, while the unit is enabled, and `main`, the process of a
    running unit.
    """
    for name, text in (("systemctl", _SYSTEMCTL), ("supervise", _SUPERVISE)):
        (state / name).write_text(text.format(state=state, unit=unit))
        (state / name).chmod(0o755)
