"""Record batch v2, sans-io: header views, checks, walks, compression, Arrow.  Entrance: `batches.batch`."""
