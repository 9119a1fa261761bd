"""The error of texts that do not compile. It is apart from the compiler, so that the compiler can be imported later."""


class CompileError(ValueError):
    """A text that is not a valid expression. Position and reason are formatted as in upstream's compiler."""
