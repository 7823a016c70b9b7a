"""Start a project: the files that `aegis init` writes."""

from importlib import resources
from pathlib import Path

from aegis.domain.errors import ConfigurationError

_FILES = {"aegis.toml": "aegis.toml", "tools.py": "tools.py.txt"}


def start_project(folder: Path) -> list[str]:
    """Write the files of a new project into `folder` and return what to say.

    Raises `ConfigurationError` where a file exists already: nothing is overwritten.
    """
    present = [name for name in _FILES if (folder / name).exists()]
    if present:
        raise ConfigurationError(
            f"{present[0]!r} exists already in this folder; `aegis init` overwrites nothing"
        )
    folder.mkdir(parents=True, exist_ok=True)
    templates = resources.files("aegis.bootstrap").joinpath("templates")
    for name, template in _FILES.items():
        text = templates.joinpath(template).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8")
    return [
        "wrote aegis.toml and tools.py",
        'try: aegis run "how many words are these?"',
        "then: aegis doctor, and docs/tutorial/first-agent.md",
    ]
