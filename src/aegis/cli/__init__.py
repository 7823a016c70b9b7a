"""The command line: parse, call, print.

It may import `experiments`, `bench`, `bootstrap`, `domain` and `use_cases`. It decides nothing.
"""
