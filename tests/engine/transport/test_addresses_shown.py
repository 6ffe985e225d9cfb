"""An address is shown without what nobody may read, and the same place is shown alike."""

from __future__ import annotations

import pytest

from codemojex.engine.transport.url import shown


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("valkey://user:secret@host:7000/2", "valkey://host:7000/2"),
        ("redis://host?db=3&client_name=secret", "valkey://host:6379/3"),
        ("rediss://:secret@host", "valkey://host:6379/0"),
        ("valkey://[::1]:6380", "valkey://[::1]:6380/0"),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock"),
        ("unix:///run/valkey.sock?db=1", "unix:///run/valkey.sock?db=1"),
        ("cluster://:secret@b:2,a:1", "cluster://a:1,b:2"),
        ("sentinel://u:secret@a,b:2/jobs/1?sentinel_password=secret", "sentinel://a:26379,b:2/jobs/1"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, text: str) -> None:
    assert shown(url) == text
