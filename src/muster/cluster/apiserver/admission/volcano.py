"""What there is to say to those who make a Job of Volcano's."""

from collections.abc import Collection

from muster.api.validation.volcano import warnings
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.admission.chain import Attempt, Remark


def parts_of_volcano(schedulers: Collection[str]) -> Remark:
    """Tell who makes a Job of Volcano's what of it does nothing here. schedulers: the names of those that are here."""

    def remark(attempt: Attempt) -> str:
        if attempt.resource.key != VOLCANO_JOB.resource or attempt.operation != "CREATE" or attempt.subresource:
            return ""
        return "; ".join(warnings(VOLCANO_JOB.typed(attempt.document), schedulers))

    return remark
