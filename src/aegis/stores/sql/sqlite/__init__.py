"""The SQLite engine: one writer thread with group commit, a reader thread, WAL, FULL."""
