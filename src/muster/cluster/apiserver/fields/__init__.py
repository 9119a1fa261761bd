"""Manage fields: record which manager set which fields of an object, and implement server-side apply.

The rules follow server-side apply (kubernetes KEP-555). There are two entry points:

- `update_managers` takes the stored and the new object, and records the changed fields in `metadata.managedFields`.
- `apply` takes the stored object and a manager's configuration, and returns the merged object. An apply without force
  may not change a field that another manager sets to a different value. An apply removes the fields that the manager
  applied before and no longer lists.

Field sets keep their wire form FieldsV1, so reading and writing needs no conversion. A field set is a trie of dicts
whose keys are path elements: `f:NAME`, `k:{KEYS}` or `v:VALUE`. A path belongs to the set if its node is empty or has
the key `.`. Versions of an object share field sets, so no function changes a field set in place.

All functions are pure, except those that say "in place". Comparisons skip equal parts of two documents, so their cost
is proportional to the change. The verbs store the object.
"""

from muster.cluster.apiserver.fields.apply import apply
from muster.cluster.apiserver.fields.managers import Writer, default_manager, manager_errors
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet
from muster.cluster.apiserver.fields.update import is_same_but_times, update_managers

__all__ = [
    "FieldSchema",
    "FieldSet",
    "Writer",
    "apply",
    "default_manager",
    "is_same_but_times",
    "manager_errors",
    "update_managers",
]
