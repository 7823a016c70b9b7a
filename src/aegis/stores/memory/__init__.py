"""The memory store: the same rules as SQL on plain dictionaries, for tests and short demos."""
