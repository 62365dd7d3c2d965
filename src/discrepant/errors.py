"""The one error a user can cause: a sentence that says what is wrong and what to do."""


class InputError(ValueError):
    """What was passed in cannot be worked with; the message says what to do."""


class InputTypeError(InputError, TypeError):
    """The same, where scikit-learn expects a TypeError."""
