"""The SQL store: tables and statements declared once, run on raw drivers.

`schema` and `declarations` need SQLAlchemy and are imported by generation, migrations and tests
only; at run time the generated `statements` and a raw driver are all that is loaded.
"""
