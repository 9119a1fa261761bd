"""The exceptions of the Python interface."""


class Error(Exception):
    """A request cannot be carried out; the text says in one line why, and what to do."""


class JobFailedError(Error):
    """A job has ended without a result.

    name: the name of the job.
    code: its exit code.
    """

    def __init__(self, name: str, text: str, code: int = 1) -> None:
        super().__init__(name, text, code)  # what pickle passes on: the error may come from another process
        self.name = name
        self.code = code

    def __str__(self) -> str:
        name, text, _ = self.args
        return f"{name}: {text}"
