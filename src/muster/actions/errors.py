"""The error for requests of users that cannot be carried out."""


class UserError(Exception):
    """A request of a user that cannot be carried out; the message says in one line why, and what to do."""
