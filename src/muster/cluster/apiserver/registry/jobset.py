"""The served resource of JobSets, built in, with the rules of upstream's CRD and webhook."""

from msgspec.structs import replace

from muster.api.jobset import JOB_SET
from muster.api.validation import jobset
from muster.cluster.apiserver.objects import preparation
from muster.cluster.apiserver.registry.entries import make_custom_resource
from muster.cluster.apiserver.registry.resources import Subresource

_OF_THE_CRD = make_custom_resource(
    JOB_SET,
    (jobset.validate_create, jobset.validate_update),
    jobset.validate_status_update,
    prepare_create=preparation.make_status_setter(restarts=0),
)
JOB_SETS = replace(_OF_THE_CRD, subresources=(*_OF_THE_CRD.subresources, Subresource("log", JOB_SET, ("get",))))
