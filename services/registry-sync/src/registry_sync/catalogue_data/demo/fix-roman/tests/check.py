"""Every number from 1 to 3999 is read right."""
import sys
sys.path.insert(0, "/app")
from roman import to_number
PARTS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"),
         (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
def write(number):
    text = ""
    for value, letters in PARTS:
        while number >= value:
            text, number = text + letters, number - value
    return text
wrong = [n for n in range(1, 4000) if to_number(write(n)) != n]
print(f"{len(wrong)} of 3999 numbers are read wrong, such as {[write(n) for n in wrong[:5]]}")
sys.exit(bool(wrong))
