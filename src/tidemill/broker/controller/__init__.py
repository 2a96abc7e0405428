"""What each broker knows and asks of the controller.  Entry points: `controller_host`, `controller_client`."""
