"""The command line: `anchortm` and its commands."""
