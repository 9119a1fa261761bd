"""Applies JSON patches and merge patches to objects.

Every engine is `apply(document, patch, ...) -> new document` over decoded JSON. The inputs are never changed; the
result may share unchanged parts with them. A patch that cannot be applied raises `ApiError` with the code that
kube-apiserver gives: 400 when the patch itself is malformed, 422 when it does not fit the document, 413 when it is
too large. Whatever the patch, the time is proportional to the size of the document and the patch, and the stack
stays shallow.
"""
