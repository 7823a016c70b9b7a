"""What can go wrong, each with the stable code that callers see."""

from typing import ClassVar


class AegisError(Exception):
    """The root of every error that Aegis raises on purpose.

    `code` is public and stable. `str(error)` is written by us, for operators; it never holds text
    of a provider, a tool or a driver.
    """

    code: ClassVar[str] = "INTERNAL_ERROR"


class NotFound(AegisError):
    """The thing does not exist, or belongs to somebody else: both look the same."""

    code = "NOT_FOUND"


class Gone(AegisError):
    """The thing existed and was pruned by retention."""

    code = "GONE"


class QueueFull(AegisError):
    """As many tasks are pending as the server admits; try again later."""

    code = "QUEUE_FULL"


class CapacityExhausted(AegisError):
    """As many tasks are stored as the server admits, and none may be pruned yet."""

    code = "CAPACITY_EXHAUSTED"


class IdempotencyKeyReused(AegisError):
    """The same Idempotency-Key came with another body."""

    code = "IDEMPOTENCY_KEY_REUSED"


class UnknownAgent(AegisError):
    """No agent of this name is declared here."""

    code = "UNKNOWN_AGENT"


class InvalidRequest(AegisError):
    """The request breaks a rule of its schema.

    `pointer` is a JSON pointer to the offending member ("" is the whole document).
    """

    code = "INVALID_REQUEST"

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


class Unauthenticated(AegisError):
    """No identity, or one that does not verify."""

    code = "UNAUTHENTICATED"


class Forbidden(AegisError):
    """The identity is known and may not do this."""

    code = "FORBIDDEN"


class IllegalTransition(AegisError):
    """The transition is not in the table, or the row is no longer in the expected state."""

    code = "ILLEGAL_TRANSITION"

    def __init__(self, *, source: str, target: str) -> None:
        super().__init__(f"a task in state {source!r} cannot become {target!r}")
        self.source = source
        self.target = target


class LostClaim(AegisError):
    """The claim no longer holds: cancelled, taken over, finished, or the lease has run out."""

    code = "LOST_CLAIM"


class StoreUnavailable(AegisError):
    """The store did not answer or did not commit; nothing was acknowledged. Safe to retry."""

    code = "UNAVAILABLE"


class ConfigurationError(AegisError):
    """A setting is missing, unknown or inconsistent; the text says which and what to do."""

    code = "CONFIGURATION_ERROR"


class NotCanonical(AegisError):
    """A value has no canonical JSON form (RFC 8785): see the text for the part that has none."""

    code = "NOT_CANONICAL"
