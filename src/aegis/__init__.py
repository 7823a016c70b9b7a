"""Aegis: a self-hosted runtime for production AI agents.

The public names are `tool` and `ToolCallInfo`: everything else may change between releases.
"""

from aegis.domain.tool_declaration import ToolCallInfo, tool

__version__ = "0.1.0"
__all__ = ["ToolCallInfo", "__version__", "tool"]
