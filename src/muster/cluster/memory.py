"""Return memory that the C library keeps to the machine: objects of a megabyte come and go, and the server stays."""

import ctypes


def give_back() -> None:
    """Give free memory that lies between used memory back to the machine.

    C libraries other than glibc have no such function.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
