"""Gives the machine back what the C library keeps: objects of a megabyte come and go, and the server stays."""

import ctypes


def give_back() -> None:
    """What is free among what is not goes back too. Other C libraries than glibc have no word for that."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
