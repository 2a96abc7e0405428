"""Durability and files, over the Disk port.  Entrance: `storage.store`."""
