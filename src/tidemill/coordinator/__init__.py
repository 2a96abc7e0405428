"""State machines of coordinators.  They decide requests, replay records and handle deadlines, without any I/O."""
