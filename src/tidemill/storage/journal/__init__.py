"""A broker's journal, its blocks and the rows in them; `journal` is the entry point."""
