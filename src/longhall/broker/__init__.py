"""What can be asked of the hall, one file a verb. Here the pure rooms are joined and asyncio begins."""
