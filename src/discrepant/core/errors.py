"""Errors that a user can cause, each a sentence that says what to do about it."""


class InputError(ValueError):
    """An argument or a file cannot be used; the message says why and what to do."""


class InputTypeError(InputError, TypeError):
    """An `InputError` for a wrong type, where scikit-learn expects a TypeError."""


def missing_extra(need: str, extra: str) -> InputError:
    """Return the error for a missing optional package, with the command to install it.

    `need` is the first half of the sentence, such as "Video files need PyAV".
    """
    return InputError(f"{need}: pip install 'discrepant[{extra}]'.")
