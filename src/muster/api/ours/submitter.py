"""The annotation with the name of a job's submitter.

The embedded API server sets it to the user that it authenticated, whatever the manifest says. A user with all rights
may name another user: `muster run` and `muster apply` of the machine's owner name the Unix account instead of
`kubernetes-admin`. Other API servers keep the name that the client sent.
"""

from typing import Final

from muster.api.batch import CRON_JOB, JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET

SUBMITTER_ANNOTATION: Final = "muster.dev/submitted-by"

# The kinds of jobs, as `jobs.batch`, whose submitter is recorded in addition to the kinds of the configured frameworks.
SUBMITTED_KINDS: Final = frozenset({CRON_JOB.resource, JOB.resource, JOB_SET.resource, POD.resource})
