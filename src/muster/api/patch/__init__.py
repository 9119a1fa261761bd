"""JSON patches and merge patches of objects.

Each module has a function `apply(document, patch, ...) -> new document` over decoded JSON. The inputs never change, and
the result may share unchanged parts with them. A patch that cannot be applied raises `ApiError` with kube-apiserver's
code: 400 if the patch is malformed, 422 if it does not fit the document, and 413 if it is too large. The time is
proportional to the size of the document and the patch, and the depth of the stack is bounded.
"""
