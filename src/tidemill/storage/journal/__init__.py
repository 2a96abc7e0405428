"""The broker's one journal and the rows in it; `journal` is the entry point."""
