"""Start a shim: `python -I -S launcher.py start FD`.

This file is short, because Python does not cache the bytecode of a script; the package `shim` next to it is compiled
once. Site packages are not on the path, because a shim must import nothing slow.
"""

import sys

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/")[0])
    from shim.entry import main  # type: ignore[import-not-found]

    main()
