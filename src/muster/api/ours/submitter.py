"""The annotation with a job's submitter, which a server of ours sets.

It is the user that the server knows by a credential, whatever the manifest says. Only those who may do everything may
name another: `muster run` and `muster apply` of the machine's owner tell the name of the account, which says more than
`kubernetes-admin` does. On other clusters it is what the client said.
"""

from typing import Final

from muster.api.batch import CRON_JOB, JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET

SUBMITTER_ANNOTATION: Final = "muster.dev/submitted-by"

# The kinds of jobs, as `jobs.batch`, whose submitter is recorded, beside those of the configured frameworks.
SUBMITTED_KINDS: Final = frozenset({CRON_JOB.resource, JOB.resource, JOB_SET.resource, POD.resource})
