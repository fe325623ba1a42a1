"""Lists in pages."""


def page_count(items: int, per_page: int) -> int:
    """How many pages `items` things take with `per_page` on each."""
    return items // per_page + 1


def page(things: list[int], number: int, per_page: int) -> list[int]:
    """What is on page `number`, counted from 1."""
    first = number * per_page
    return things[first : first + per_page]
