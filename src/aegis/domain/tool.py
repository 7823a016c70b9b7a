"""What a tool is, as the model and the executor see it."""

from enum import StrEnum

from msgspec import Struct

from aegis.domain.canonical import canonical_json, sha256_hex


class Effect(StrEnum):
    """Whether a tool changes anything outside of Aegis."""

    READ = "read"
    WRITE = "write"


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool's identity: its name, description, JSON Schema of arguments and effect.

    `input_schema` is canonical JSON text of an object schema (draft 2020-12).
    """

    name: str
    description: str
    input_schema: str
    effect: Effect


def tool_hash(spec: ToolSpec) -> str:
    """Return the digest that pins the identity of `spec`: any change to it is another tool."""
    return sha256_hex(
        canonical_json([spec.name, spec.description, spec.input_schema, spec.effect.value])
    )
