"""The command line: ``anchortm demo | fit | path | loeo | predict | data | completion``."""
