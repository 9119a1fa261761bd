"""The label of all objects that `muster cluster invite` creates in a worker cluster."""

from typing import Final

# Its value is the name of the service account.
INVITATION_LABEL: Final = "muster.dev/invitation"
