"""`python -m app.cli` is `muniment`."""

from app.cli import main

main()
