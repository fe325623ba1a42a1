"""Structured logs: one event a line, with fields, the service's name and the correlation id."""

import logging
import sys
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
import structlog

from assay_kernel.live_secrets import masked_line
from assay_kernel.settings import KernelSettings


def configure_logging(service: str, settings: KernelSettings) -> None:
    """Send structlog and the standard library's logs to stderr in one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_service(service, settings.instance),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor
    if settings.log_format == "json":
        renderer = structlog.processors.JSONRenderer(serializer=_to_json)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*shared, renderer, masked_line],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                renderer,
                masked_line,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))


def bind_correlation(correlation_id: UUID, **fields: object) -> None:
    """Put the correlation id, and more, on every log line of this task from here on."""
    structlog.contextvars.bind_contextvars(
        correlation_id=str(correlation_id), **{key: str(value) for key, value in fields.items()}
    )


def _to_json(event: Mapping[str, Any], **_: object) -> str:
    return orjson.dumps(event, default=str).decode()


def _add_service(service: str, instance: str) -> structlog.typing.Processor:
    def add(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["service"], event["instance"] = service, instance
        return event

    return add
