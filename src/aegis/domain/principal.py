"""Who asks: always the server's knowledge, never the request body's."""

from msgspec import Struct


class Principal(Struct, frozen=True, kw_only=True):
    """An authenticated identity. A model's output never makes or changes one."""

    tenant: str
    subject: str
    roles: tuple[str, ...] = ()
