"""The shell around the pure core: it asks the ledger, lets `plan` decide, and has backends carry it out."""
