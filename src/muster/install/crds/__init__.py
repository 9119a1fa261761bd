"""Make the CustomResourceDefinitions of Kueue, JobSet and the PodGroups, equal in behaviour to upstream's.

The schemas are made from the types of `muster.api`, names from the table of the kinds that `muster up` serves. `rules`
contains the validation that a schema cannot express, `columns` the columns of `kubectl get`.
"""

from muster.install.crds.definitions import FAMILIES, make_definitions, served_definitions

__all__ = ["FAMILIES", "make_definitions", "served_definitions"]
