"""Run the command line as `python -m aegis`."""

from aegis.cli import main

main()
