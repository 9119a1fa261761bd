"""Field management: which manager set which fields of an object, and server-side apply on top of it.

Every write says who changed which fields (`note_update`). An apply says what its manager wants: it changes nothing that
another wants otherwise unless it is forced to, and takes away what the manager no longer wants (`apply`). The rules are
those of Kubernetes' server-side apply (KEP-555).

A field set is kept in its wire form, FieldsV1: a trie of dicts whose keys are path elements (`f:NAME`, `k:{KEYS}`,
`v:VALUE`) and whose `.` says that the path itself belongs to the set; an empty dict below the root is a path that does.
There is no conversion on the way in or out, and field sets are never changed in place: they are shared between
versions of an object.

Everything here is pure. Cost is in proportion to what changed: equal parts of two documents are not looked into.
"""

from muster.cluster.apiserver.fields.apply import apply
from muster.cluster.apiserver.fields.managers import Writer, default_manager, manager_errors
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import FieldSet
from muster.cluster.apiserver.fields.update import note_update, same_but_times

__all__ = [
    "FieldSchema",
    "FieldSet",
    "Writer",
    "apply",
    "default_manager",
    "manager_errors",
    "note_update",
    "same_but_times",
]
