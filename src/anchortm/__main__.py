"""Run the command line with ``python -m anchortm``."""

from anchortm.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
