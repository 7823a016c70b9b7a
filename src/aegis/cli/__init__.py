"""The command line: parse, call, print.

It may import `experiments`, `bench`, `bootstrap`, `domain` and `use_cases`. It decides nothing. A
command's module is imported when the command is asked for, so that a cold start stays short.
"""

from aegis.cli.program import main

__all__ = ["main"]
