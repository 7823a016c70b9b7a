"""How task ids and cancel signals reach workers, and how streams learn of new rows.

It may import `domain` and `ports`. What it carries are hints: it never owns a task.
"""
