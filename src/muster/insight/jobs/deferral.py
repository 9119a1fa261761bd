"""Describe for what a deferred job waits. Pure."""

from muster.api.ours.deferral import is_deferred, parse_deferral, parse_met
from muster.insight.record import JobRecord


def describe_deferral(job: JobRecord | None) -> str:
    """Return for what a deferred job waits, a time or other jobs; "" if it is not deferred.

    If its annotations are invalid, return the error.
    """
    annotations = job.metadata.annotations if job is not None else {}
    if not is_deferred(annotations):
        return ""
    try:
        deferral = parse_deferral(annotations)
    except ValueError as error:
        return str(error)
    met = parse_met(annotations)
    wishes = [one.wish for one in deferral.after if one.name not in met]
    begin = deferral.begin_at
    return "; ".join(
        [
            *([f"begins at {begin.astimezone():%Y-%m-%d %H:%M}"] if begin is not None else []),
            *([f"waits for {', '.join(wishes)}"] if wishes else []),
        ]
    )
