"""Warn about the parts of a Volcano Job that have no effect here."""

from collections.abc import Collection

from muster.api.validation.volcano import list_warnings
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.admission.chain import Remark, WriteAttempt


def warn_of_ignored_parts(schedulers: Collection[str]) -> Remark:
    """Return the check that warns about parts of a new Volcano Job that have no effect here.

    schedulers: the names of the schedulers that run here.
    """

    def remark(attempt: WriteAttempt) -> str:
        if attempt.resource.key != VOLCANO_JOB.resource or attempt.operation != "CREATE" or attempt.subresource:
            return ""
        return "; ".join(list_warnings(VOLCANO_JOB.typed(attempt.document), schedulers))

    return remark
