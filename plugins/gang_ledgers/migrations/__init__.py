"""Migrations of the ledger's tables, by Alembic."""
