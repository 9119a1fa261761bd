"""The error of texts that do not compile, apart from the compiler, which is imported with the first expression."""


class CompileError(ValueError):
    """The error of a text that is not a valid expression. Position and reason read as in upstream's compiler."""
