"""The served resource of Volcano's Jobs, built in, with the rules of upstream's CRD and webhook."""

from muster.api.validation import volcano
from muster.api.volcano import VOLCANO_JOB
from muster.cluster.apiserver.registry.entries import make_custom_resource

VOLCANO_JOBS = make_custom_resource(
    VOLCANO_JOB,
    (volcano.validate_create, volcano.validate_update),
    volcano.validate_status_update,
    "vcjob",
    "vj",
)
