"""What brokers and shards use: `load_reporter` measures and sends it, `reported_load` has it on the controller."""
