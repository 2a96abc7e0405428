"""The controller, and how every broker reaches it.  Entry points: `controller_host`, `controller_client`."""
