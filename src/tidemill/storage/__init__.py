"""Durability and files, over the Disk port.  Entry point: `storage.store`."""
