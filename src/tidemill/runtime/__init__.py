"""The only code that touches the machine."""
