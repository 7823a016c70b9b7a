"""Read an `aegis.toml`. Every refusal names the key, what was expected and what to do."""

import re
import tomllib
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct, structs

from aegis.domain.errors import ConfigurationError
from aegis.settings.sections import (
    AgentSection,
    BackendSection,
    ConfigurationFile,
    ModelSection,
    ToolSection,
)

S = TypeVar("S", bound=Struct)
_ENTRIES: dict[str, type[Struct]] = {
    "models": ModelSection,
    "agents": AgentSection,
    "backends": BackendSection,
    "tools": ToolSection,
}
_ENTRY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MESSAGE = re.compile(r"(?P<said>.*?)(?: - at `\$\.?(?P<at>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def read_configuration(file: Path) -> ConfigurationFile:
    """Read one `aegis.toml`. Raises `ConfigurationError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"the configuration {file.name!r} cannot be read: AEGIS_CONFIG must name a UTF-8 file"
        ) from error
    return parse_configuration(text, file.name, file.parent)


def parse_configuration(text: str, name: str, folder: Path) -> ConfigurationFile:
    """Read the text of an `aegis.toml`; scripts are looked up in `folder`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name!r} is not TOML: {error}") from error
    try:
        configuration = msgspec.convert(document, ConfigurationFile)
    except msgspec.ValidationError as error:
        # The entries one by one, because the whole does not say which of them is wrong.
        for table, kind in _ENTRIES.items():
            entries: object = document.get(table)
            if isinstance(entries, dict):
                for key, entry in cast("dict[str, object]", entries).items():
                    _converted(name, f"{table}.{key}", entry, kind)
        raise _refusal(name, "", ConfigurationFile, error) from error
    _check(name, configuration)
    models = {
        key: _with_script(name, key, model, folder) for key, model in configuration.models.items()
    }
    return structs.replace(configuration, models=models)


def _converted(file: str, place: str, value: object, kind: type[S]) -> S:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _refusal(file, place, kind, error) from error


def _refusal(
    file: str, place: str, kind: type[Struct], error: msgspec.ValidationError
) -> ConfigurationError:
    """Say which key is wrong, what was expected there, and what to do."""
    found = _MESSAGE.fullmatch(str(error))
    said, at = (found["said"], found["at"] or "") if found else (str(error), "")
    key = ".".join(part for part in (place, at) if part)
    unknown = _UNKNOWN.fullmatch(said)
    if unknown is None:
        where = f"key {key!r}" if key else "the file"
        return ConfigurationError(f"{file!r}: {where} is not valid: {said.replace('`', '')}")
    full = ".".join(part for part in (key, unknown.group(1)) if part)
    known = "" if at else f"; known here: {', '.join(kind.__struct_fields__)}"
    return ConfigurationError(f"{file!r}: unknown key {full!r}: remove or correct it{known}")


def _check(file: str, configuration: ConfigurationFile) -> None:
    """Refuse what is well formed but contradicts itself."""
    if configuration.limits.renew_seconds >= configuration.limits.lease_seconds:
        raise ConfigurationError(
            f"{file!r}: limits.renew_seconds must be below limits.lease_seconds"
        )
    for table in _ENTRIES:
        for name in getattr(configuration, table):
            if not _ENTRY_NAME.fullmatch(name):
                raise ConfigurationError(
                    f"{file!r}: {name!r} cannot name an entry of [{table}]: use letters, digits,"
                    " '-' and '_'"
                )
    for name, model in configuration.models.items():
        if (model.script is None) == (not model.steps):
            raise ConfigurationError(
                f"{file!r}: models.{name} needs exactly one of 'script' and 'steps'"
            )
    for name, backend in configuration.backends.items():
        _check_backend(file, name, backend)
    for name, tool in configuration.tools.items():
        wanted, other = (
            ("function", "backend") if tool.kind == "python" else ("backend", "function")
        )
        if getattr(tool, wanted) is None or getattr(tool, other) is not None:
            raise ConfigurationError(
                f"{file!r}: tools.{name} of kind {tool.kind!r} needs {wanted!r} and no {other!r}"
            )


def _check_backend(file: str, name: str, backend: BackendSection) -> None:
    if (backend.url is None) == (backend.url_env is None):
        raise ConfigurationError(
            f"{file!r}: backends.{name} needs exactly one of 'url' and 'url_env'"
        )
    for variable in (backend.url_env, backend.token_env):
        # What stands there may be the secret itself, so it is not repeated.
        if variable is not None and not _VARIABLE_NAME.fullmatch(variable):
            raise ConfigurationError(
                f"{file!r}: url_env and token_env of backends.{name} must be the name of an"
                " environment variable, never the value"
            )


def _with_script(file: str, name: str, model: ModelSection, folder: Path) -> ModelSection:
    if model.script is None:
        return model
    try:
        script = tomllib.loads((folder / model.script).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            f"{file!r}: the script {model.script!r} of models.{name} cannot be read as TOML"
        ) from error
    own = {"kind": model.kind, "repeat_last": model.repeat_last}
    read = _converted(model.script, "", {**own, **script}, ModelSection)
    if read.script is not None or not read.steps:
        raise ConfigurationError(
            f"script {model.script!r} needs 'steps', and no 'script' of its own"
        )
    return read
