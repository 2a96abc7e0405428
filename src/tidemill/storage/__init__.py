"""Durability and files, on top of the Disk port.  Entry point: `storage.store`."""
