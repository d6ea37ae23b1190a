"""Entry point of `python -m crlc`."""

from crlc.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
