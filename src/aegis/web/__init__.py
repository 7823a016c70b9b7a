"""The HTTP door: reads through views, writes through use cases, decides nothing.

It may import `domain`, `use_cases` and the view ports. No handler runs the loop, and no error text
but ours leaves it.
"""
