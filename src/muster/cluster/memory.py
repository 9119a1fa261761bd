"""Return memory that the C library holds to the machine. The server runs long, and frees many objects of a megabyte."""

import ctypes


def give_back() -> None:
    """Return free memory between used memory to the machine.

    Only glibc has such a function; with other C libraries, do nothing.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
