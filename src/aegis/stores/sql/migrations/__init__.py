"""Numbered, forward-only migrations. Code of the previous release runs on the next schema."""
