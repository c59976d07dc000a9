"""The operations on a hall, one file each. The broker joins the pure rooms, and asyncio begins here."""
