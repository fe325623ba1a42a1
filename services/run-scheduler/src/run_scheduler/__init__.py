"""The life of a run: admission, queue, dispatch, retries, stop, finish."""
