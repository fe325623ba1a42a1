"""How answers look on a terminal: numbers, tables, progress and errors."""
