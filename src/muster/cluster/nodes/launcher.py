"""Starts a shim: `python -I -S launcher.py start FD`.

It is this short because Python does not keep what it compiles of the file that it is told to run; the package `shim`
next to it is compiled once. Site packages are not on the path: a shim imports nothing that takes long.
"""

import sys

if __name__ == "__main__":
    sys.path.append(__file__.rpartition("/")[0])
    from shim.entry import main  # type: ignore[import-not-found]

    main()
