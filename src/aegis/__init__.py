"""Aegis: a self-hosted runtime for production AI agents."""

__version__ = "0.1.0"
