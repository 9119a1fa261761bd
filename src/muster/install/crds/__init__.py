"""Makes the CustomResourceDefinitions of Kueue, JobSet and the PodGroups, equal in behaviour to upstream's.

The schemas are made from the types of `muster.api`, names from the table of what `muster up` serves; `rules` has what a
schema cannot say, `columns` what `kubectl get` shows.
"""

from muster.install.crds.definitions import FAMILIES, definitions, served_definitions

__all__ = ["FAMILIES", "definitions", "served_definitions"]
