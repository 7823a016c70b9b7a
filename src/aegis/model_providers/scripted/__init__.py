"""A model that is declared data: the same replies every time, for demos, experiments and tests.

It may import `domain` and `ports`. A script is checked and compiled when it is loaded; nothing in
it can make the process do anything but wait and answer.
"""
