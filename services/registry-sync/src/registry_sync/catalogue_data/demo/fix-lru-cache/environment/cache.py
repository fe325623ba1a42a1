"""A cache that forgets what was not used for longest."""


class Cache:
    """Holds up to `size` values."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: dict[str, int] = {}

    def get(self, key: str) -> int | None:
        """The value of `key`, or None; using it makes it recent."""
        return self.values.get(key)

    def put(self, key: str, value: int) -> None:
        """Keep a value; where there is no room, what was not used for longest is forgotten."""
        if len(self.values) >= self.size:
            oldest = next(iter(self.values))
            del self.values[oldest]
        self.values[key] = value
