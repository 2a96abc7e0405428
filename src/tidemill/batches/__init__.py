"""Record batch v2, sans-io: headers, checks, record scans, compression, Arrow.  Entry point: `batches.batch`."""
