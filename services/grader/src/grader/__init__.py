"""Results to scores, and the metrics of every agent of a run."""
