"""Models behind the one port, and the wrappers that bound them.

It may import `domain` and `ports`. No text of a provider's error leaves it, and no type of a
vendor crosses its edge.
"""
