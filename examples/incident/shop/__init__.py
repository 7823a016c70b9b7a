"""A simulated shop with a bad release: a pure model and the HTTP APIs that read it.

It imports nothing of Aegis. The model (topology, model, series, logs) has no clock and no
randomness of its own; only `app` and `serve.py` know what time it is.
"""
