"""Tools and the one way to them: the executor assesses, authorizes, runs and records.

It may import `domain` and `ports`. It never trusts the model's arguments for identity, and no text
of a tool's exception leaves it.
"""
