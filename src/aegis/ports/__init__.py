"""The contracts between the inside of Aegis and the world, one Protocol a file.

It may import `domain` only. No adapter, no vendor type and no code that runs lives here.
"""
