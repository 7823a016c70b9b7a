"""Settings for measurements and experiments, made without an environment or a file."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from aegis.settings import LimitsSection, ServerSettings, Settings, load_settings


def experiment_settings(folder: Path, *, memory: bool = False) -> Settings:
    """Return the demo profile with a database in `folder`: one consumer, the limits of A4."""
    return _settings(folder, memory=memory, concurrency=1, limits=LimitsSection())


def bench_settings(
    folder: Path,
    *,
    concurrency: int,
    memory: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return settings that admit as much as a measurement needs."""
    limits = LimitsSection(pending_max=1_000_000, stored_max=10_000_000, lease_seconds=15.0)
    limits = structs.replace(limits, renew_seconds=5.0)
    made = _settings(folder, memory=memory, concurrency=concurrency, limits=limits)
    return structs.replace(made, environ=environ or {})


def _settings(folder: Path, *, memory: bool, concurrency: int, limits: LimitsSection) -> Settings:
    environ = {"AEGIS_DATABASE_URL": "memory://"} if memory else {}
    base = load_settings({**environ, "AEGIS_HOME": str(folder)}, folder)
    configuration = structs.replace(
        base.configuration, server=ServerSettings(concurrency=concurrency), limits=limits
    )
    return structs.replace(base, configuration=configuration, environ={})
