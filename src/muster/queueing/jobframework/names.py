"""Names of Workloads, byte for byte those of Kueue: prebuilt workloads and other clusters refer to them."""

from hashlib import sha1

_LONGEST = 253  # as a name may be
_LONGEST_LABEL = 63  # as the value of a label may be
_HASH = 5


def workload_name(kind: str, group: str, name: str, uid: str, extra: str = "", *, short: bool = False) -> str:
    """Of the Workload of an object: `job-NAME-HASH`, cut so that it stays a valid name.

    group: of the object's API, "" for the core. extra: tells several Workloads of one object apart (its generation).
    short: names that are also valid as values of labels (upstream gate ShortWorkloadNames).
    """
    room = (_LONGEST_LABEL if short else _LONGEST) - 1 - _HASH
    identity = "\n".join([kind, group, name, uid, *([extra] if extra else [])])
    digest = sha1(identity.encode(), usedforsecurity=False).hexdigest()
    return f"{f'{kind.lower()}-{name}'[:room]}-{digest[:_HASH]}"
