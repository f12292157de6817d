"""The `phalanx` command line: thin, and with --json everywhere."""
