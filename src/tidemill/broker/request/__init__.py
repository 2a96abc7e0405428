"""Code that several handlers share.  The entry point is `request_context`."""
