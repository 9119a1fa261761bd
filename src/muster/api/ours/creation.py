"""When an object was created, more exactly than the server's stamp."""

from datetime import UTC, datetime, timedelta

from muster.api.meta import ObjectMeta

# The creation of an object, in the words of its creator; ignored if it is far from the server's stamp.
CREATED_ANNOTATION = "muster.dev/created"
_STAMP = timedelta(seconds=2)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def created_at(meta: ObjectMeta) -> datetime:
    """Return when the object was created, to a fraction of a second if that is known.

    The server's stamp has whole seconds, which would leave the order of many objects to chance.
    """
    stamp = meta.creation_timestamp or _LONG_AGO
    try:
        exact = datetime.fromisoformat(meta.annotations.get(CREATED_ANNOTATION, ""))
    except ValueError:
        return stamp
    return exact if exact.tzinfo is not None and abs(exact - stamp) < _STAMP else stamp
