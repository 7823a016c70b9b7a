"""Where tasks are kept: the memory store, and one SQL store for several engines.

It may import `domain` and `ports`. It never decides what a task does next, holds no transaction
over a model or tool call, and lets no text of a driver out.
"""
