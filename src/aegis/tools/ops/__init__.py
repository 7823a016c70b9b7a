"""Tools for operations: metrics, logs, releases, and their simulated twins."""
