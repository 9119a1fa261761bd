"""Who submitted a job: an annotation, which a server of ours gives it.

It is the user that the server knows by a credential, whatever the manifest says. Only those who may do everything may
name another: `muster run` of the machine's owner tells the name of the account, which says more than `kubernetes-admin`
does. On other clusters it is what the client said.
"""

from typing import Final

SUBMITTER_ANNOTATION: Final = "muster.dev/submitted-by"
