"""What this package refuses, as types of their own: every error is a `ValueError` whose message
says which argument is wrong and what the caller can do about it."""


class StatisticsError(ValueError):
    """Base of every error this package raises."""


class ShapeError(StatisticsError):
    """An argument is empty, is not one-dimensional, or differs in length from its partner."""


class CountError(StatisticsError):
    """A count is not a whole number, or is outside the range it can have."""


class TooFewAttemptsError(StatisticsError):
    """pass@k or pass^k was asked for a k that some task has not enough attempts for."""


class NotFiniteError(StatisticsError):
    """A value is NaN or infinite where a number is needed."""


class NegativeAmountError(StatisticsError):
    """A cost, a duration or a number of tokens is below zero."""
