"""JobSets, as they are served: upstream's CRD with its webhook, natively."""

from muster.api.jobset import JOB_SET
from muster.api.validation import jobset
from muster.cluster.apiserver.objects import preparation
from muster.cluster.apiserver.registry.entries import served_as_custom

JOB_SETS = served_as_custom(
    JOB_SET,
    (jobset.validate_create, jobset.validate_update),
    jobset.validate_status_update,
    prepare_create=preparation.new_with(restarts=0),
)
