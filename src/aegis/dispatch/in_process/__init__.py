"""Dispatch within one process: a bounded queue and direct signals on one event loop."""
