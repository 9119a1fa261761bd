"""The exceptions of the SDK."""


class Error(Exception):
    """A request that cannot be carried out. The message is one line with the reason and the remedy."""


class JobFailedError(Error):
    """A job that has ended without a result.

    name: the name of the job.
    code: the exit code of the job.
    """

    def __init__(self, name: str, text: str, code: int = 1) -> None:
        super().__init__(name, text, code)  # what pickle passes on: the error may come from another process
        self.name = name
        self.code = code

    def __str__(self) -> str:
        name, text, _ = self.args
        return f"{name}: {text}"
