"""The real PostgreSQL, for this folder's tests."""

from tests.postgres_fixture import postgres_server as postgres_server
from tests.postgres_fixture import postgres_url as postgres_url
