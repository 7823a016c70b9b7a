"""Streams: durable events with a cursor, replayed then live."""
