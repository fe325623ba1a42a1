"""Roman numerals."""

VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def to_number(numeral: str) -> int:
    """The number that a Roman numeral from I to MMMCMXCIX stands for."""
    total = 0
    for letter in numeral:
        total += VALUES[letter]
    return total
