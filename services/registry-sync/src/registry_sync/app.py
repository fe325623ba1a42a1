"""Wiring of registry-sync: the catalogue's projection, and the worker that reads sources."""

from assay_kernel.blobs import BlobStore
from assay_kernel.service import Schema, Service, run_service
from registry_sync.projection import CatalogueProjection
from registry_sync.settings import RegistrySettings
from registry_sync.tables import kernel, metadata
from registry_sync.worker import SyncWorker

SCHEMA = Schema(package="registry_sync", metadata=metadata, kernel=kernel)


async def wire(service: Service) -> None:
    """Build the parts of registry-sync."""
    settings = service.settings
    if not isinstance(settings, RegistrySettings):
        raise TypeError("registry-sync needs its own settings")
    worker = SyncWorker(service.engine, service.store, BlobStore(settings.blob_url), settings)
    service.project(CatalogueProjection(), committed=worker.wake)
    service.tasks["sync worker"] = worker.run()


def main() -> None:
    """Run registry-sync until it is told to stop."""
    run_service("registry-sync", RegistrySettings(), wire, schema=SCHEMA)
