"""The composition root: which adapter stands behind which port. Nothing else is decided here.

It may import every room below it. An adapter that not every process needs is imported when it is
configured, so that a cold start pays only for what it uses.
"""
