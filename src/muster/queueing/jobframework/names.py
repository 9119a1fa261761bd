"""Name Workloads exactly as Kueue does, because prebuilt Workloads and other clusters refer to these names."""

from hashlib import sha1

_LONGEST = 253  # the API's limit on the length of names
_HASH = 5


def workload_name(kind: str, group: str, name: str, uid: str, extra: str = "") -> str:
    """Return the name of the Workload of an object: `KIND-NAME-HASH`, shortened if it would be too long.

    group: the API group of the object, "" for the core.
    extra: distinguishes several Workloads of one object (its generation).
    """
    room = _LONGEST - 1 - _HASH
    identity = "\n".join([kind, group, name, uid, *([extra] if extra else [])])
    digest = sha1(identity.encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.lower()}-{name}'[:room]}-{digest[:_HASH]}"
