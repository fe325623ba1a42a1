"""The harnesses a run may name: Harbor's own, and `scripted`, which plays back a recording.

The list is kept here because the gateway must refuse a mistyped name without importing Harbor; a
test of sandbox-runner compares it with Harbor's.
"""

HARNESSES: tuple[str, ...] = (
    "oracle",
    "nop",
    "scripted",
    "acp",
    "aider",
    "antigravity-cli",
    "antigravity-sdk",
    "claude-code",
    "cline-cli",
    "code-puppy",
    "codex",
    "computer-1",
    "copilot-cli",
    "cortex-code",
    "cursor-cli",
    "deerflow",
    "devin",
    "dspy-rlm",
    "eve",
    "fabric",
    "fx",
    "fx-dev",
    "gemini-cli",
    "goose",
    "grok-build",
    "hermes",
    "junie",
    "kimi-cli",
    "kimi-code",
    "langgraph",
    "mcode",
    "mimo",
    "mini-swe-agent",
    "muse-code",
    "nemo-agent",
    "openclaw",
    "opencode",
    "opencode-v2",
    "openhands",
    "openhands-sdk",
    "pi",
    "qwen-coder",
    "rovodev-cli",
    "strands",
    "swe-agent",
    "terminus",
    "terminus-1",
    "terminus-2",
    "trae-agent",
    "vibe",
)

HARNESSES_WITHOUT_MODEL = frozenset({"oracle", "nop", "scripted"})
"""Harnesses that call no model, and so need no `[agents.model]`."""

PLATFORM_CREDENTIALS = frozenset(
    {
        "DAYTONA_API_KEY",
        "DAYTONA_API_URL",
        "E2B_API_KEY",
        "MODAL_TOKEN_ID",
        "MODAL_TOKEN_SECRET",
        "OPENSANDBOX_API_KEY",
        "OPENSANDBOX_DOMAIN",
    }
)
"""Names of the platform's own sandbox credentials, which no model key may use."""


def model_key_alias(harness: str | None) -> str | None:
    """The second name under which a harness wants its model key, or None."""
    return "MSWEA_API_KEY" if harness == "mini-swe-agent" else None
