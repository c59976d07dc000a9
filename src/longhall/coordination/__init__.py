"""What nodes agree on: who lives, who manages, who leads which shard under which epoch. Not one message passes here."""
