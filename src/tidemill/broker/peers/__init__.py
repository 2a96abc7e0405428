"""What a broker exchanges with its peers and knows of them; `cluster` is the entry point."""
