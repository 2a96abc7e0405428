"""What two broker processes say to each other below the level of shards, pure.  Entrance: `peer.session`."""
