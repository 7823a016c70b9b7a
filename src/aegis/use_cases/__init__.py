"""What a caller may ask of Aegis: one file, one command record, one function each.

It may import `domain` and `ports`. It never runs the loop and never reads a clock by itself.
"""
