"""`python -m registry_sync`."""

from registry_sync.app import main

main()
