"""The loop: decide a move, carry it out, commit what came of it. Tasks of every agent run by it.

It may import `domain` and its six ports (model provider, tool executor, task repository, clock,
ids, knowledge index). It never starts a timer, opens a connection or writes by another way than
`commit`.
"""
