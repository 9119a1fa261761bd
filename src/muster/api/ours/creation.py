"""Read the creation time of an object, with a fraction of a second where Muster's server recorded it."""

from datetime import UTC, datetime, timedelta

from muster.api.meta import ObjectMeta

# The creation of an object, in the words of its creator; ignored if it is far from the server's stamp.
CREATED_ANNOTATION = "muster.dev/created"
_STAMP = timedelta(seconds=2)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def created_at(meta: ObjectMeta) -> datetime:
    """Return when the object was created, to a fraction of a second if that is known.

    `creationTimestamp` has whole seconds, which do not show the order of objects that are created within one second.
    """
    stamp = meta.creation_timestamp or _LONG_AGO
    try:
        exact = datetime.fromisoformat(meta.annotations.get(CREATED_ANNOTATION, ""))
    except ValueError:
        return stamp
    return exact if exact.tzinfo is not None and abs(exact - stamp) < _STAMP else stamp
