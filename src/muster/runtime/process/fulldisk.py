"""Distinguish a write that failed for lack of space from other failures."""

import errno

# A user, a group or a project with an exhausted quota has no room, even if the disk has some.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def has_no_room(error: OSError) -> bool:
    """Return whether a write failed because the disk is full or a quota is exhausted."""
    return error.errno in _NO_ROOM
