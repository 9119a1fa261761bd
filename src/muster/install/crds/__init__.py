"""The kinds of Kueue, JobSet and the PodGroups as CustomResourceDefinitions, equal in behaviour to upstream's.

The schemas are made from the types of `muster.api`, names from the table of what `muster up` serves; `rules` has what a
schema cannot say, `columns` what `kubectl get` shows.
"""

from muster.install.crds.definitions import FAMILIES, definitions

__all__ = ["FAMILIES", "definitions"]
