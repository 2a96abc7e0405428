"""Record batches (v2), without I/O: headers, checks, records, compression and Arrow.  Entry point: `batches.batch`."""
