"""`python -m longhall.cli`."""

from longhall.cli.main import main

main()
