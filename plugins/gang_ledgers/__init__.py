"""Ledgers: the one owner of gangs, leases, attempts and their history."""
