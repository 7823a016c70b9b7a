"""Identity and policy adapters: who is calling, and what they may do.

It may import `domain` and `ports`. It grants nothing by default and nothing on error.
"""
