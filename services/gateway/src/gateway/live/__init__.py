"""Events as they happen: one reader of each stream feeds every listener of the process."""
