"""Environment and `aegis.toml` to frozen records. Unknown keys are errors that name the key.

It may import `domain`. It opens nothing but its own files and decides nothing. These names are what
`bootstrap` sees of it.
"""

from aegis.settings.environment import Settings, agent_spec, describe, load_settings
from aegis.settings.file import parse_configuration, read_configuration
from aegis.settings.sections import (
    AgentLimitsSection,
    AgentSection,
    BackendSection,
    ConfigurationFile,
    LimitsSection,
    ModelSection,
    PolicyRule,
    PolicySection,
    QuerySection,
    ServerSettings,
    StoreSection,
    ToolSection,
)

__all__ = [
    "AgentLimitsSection",
    "AgentSection",
    "BackendSection",
    "ConfigurationFile",
    "LimitsSection",
    "ModelSection",
    "PolicyRule",
    "PolicySection",
    "QuerySection",
    "ServerSettings",
    "Settings",
    "StoreSection",
    "ToolSection",
    "agent_spec",
    "describe",
    "load_settings",
    "parse_configuration",
    "read_configuration",
]
