"""Settings for measurements and experiments, made without an environment or a file."""

from pathlib import Path

from msgspec import structs

from aegis.settings import (
    ConfigurationFile,
    LimitsSection,
    ServerSettings,
    Settings,
    parse_configuration,
)


def experiment_settings(folder: Path) -> Settings:
    """Return the demo profile with a database in `folder`: one consumer, the limits of A4."""
    configuration = ConfigurationFile(version=1, server=ServerSettings(concurrency=1))
    return _settings(folder, configuration, memory=False)


def bench_settings(folder: Path, declared: str, *, concurrency: int, memory: bool) -> Settings:
    """Return settings that admit as much as a measurement needs; `declared` is TOML with agents."""
    configuration = structs.replace(
        parse_configuration(declared, "bench", folder),
        server=ServerSettings(concurrency=concurrency),
        limits=LimitsSection(
            pending_max=1_000_000, stored_max=10_000_000, lease_seconds=15.0, renew_seconds=5.0
        ),
    )
    return _settings(folder, configuration, memory=memory)


def _settings(folder: Path, configuration: ConfigurationFile, *, memory: bool) -> Settings:
    return Settings(
        home=folder,
        database=None if memory else folder / "aegis.db",
        file=None,
        configuration=configuration,
        demo_token=None,
        environ={},
    )
