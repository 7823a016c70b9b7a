"""A model that is declared data: the same replies every time, for demos, experiments and tests."""
