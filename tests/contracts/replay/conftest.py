"""The daemon's patience with servers, scaled down, as for its own tests."""

from tests.daemon.session.conftest import quick as quick
