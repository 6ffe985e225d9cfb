"""Every command is sent to the slot of its key."""

from __future__ import annotations

import pytest

from codemojex.engine import keyspace
from codemojex.engine.errors import InvalidValue
from codemojex.engine.transport import key_slots
from codemojex.engine.transport.url import Address, parse_address

KEY = "emq:{q}:x"


@pytest.mark.parametrize(
    "command",
    [
        ("GET", KEY),
        ("get", KEY.encode()),
        ("EVALSHA", "sha", 2, KEY, "emq:{q}:y", "{other}"),
        ("EVAL", "return 1", "1", KEY),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", 5, "BLOCK", 10, "STREAMS", KEY, ">"),
        ("XREADGROUP", "GROUP", "streams", "match", "STREAMS", KEY, ">"),
        ("XREAD", "BLOCK", 1, "STREAMS", KEY, "0-0"),
        ("XGROUP", "CREATE", KEY, "g", "0", "MKSTREAM"),
        ("XINFO", "GROUPS", KEY),
        ("XPENDING", KEY, "g", "-", "+", 1),
        ("XAUTOCLAIM", KEY, "g", "c", 1, "0"),
        ("BLPOP", KEY, 1.5),
        ("SCAN", "0", "MATCH", "emq:{q}:*", "COUNT", 10),
        ("OBJECT", "ENCODING", KEY),
        ("MEMORY", "USAGE", KEY),
        ("LMPOP", 1, KEY, "LEFT"),
        ("BLMPOP", 0, 1, KEY, "LEFT"),
        ("PUBLISH", KEY, "text"),
    ],
    ids=lambda c: " ".join(map(str, c[:2])),
)
def test_a_command_goes_where_its_key_is(command: tuple[object, ...]) -> None:
    assert key_slots.slot(command) == keyspace.slot("q")


@pytest.mark.parametrize(
    "command",
    [
        ("PING",),
        ("INFO", "server"),
        ("SCRIPT", "FLUSH"),
        ("EVAL", "return 1", 0),
        ("SCAN", 0),
        ("SCAN", 0, "MATCH", "*"),
    ],
    ids=str,
)
def test_a_command_without_a_key_goes_anywhere(command: tuple[object, ...]) -> None:
    assert key_slots.slot(command) is None


def test_a_cluster_is_its_nodes() -> None:
    found = parse_address("clusters://me:p%40ss@one:7000,two,[::1]:7002/?ssl_check_hostname=false")
    assert found.seeds == (Address("one", 7000), Address("two", 6379), Address("::1", 7002))
    assert found.url(Address("three", 1)) == "rediss://me:p%40ss@three:1/0?ssl_check_hostname=false"
    assert found.url(Address("::1", 1)).startswith("rediss://me:p%40ss@[::1]:1/0")
    assert parse_address("cluster://one").url(Address("one", 1)) == "redis://one:1/0"


def test_a_replica_set_is_its_sentinels_and_a_service() -> None:
    found = parse_address("sentinel://me:pass@one,two:1/jobs/3?sentinel_password=other&sentinel_username=s")
    assert (found.seeds, found.service) == ((Address("one", 26379), Address("two", 1)), "jobs")
    assert found.url(Address("data", 6379)) == "redis://me:pass@data:6379/3"
    assert found.seed_url(Address("one", 26379)) == "redis://s:other@one:26379/0"
    assert parse_address("sentinel://me:pass@one/jobs").seed_url(Address("one", 1)) == "redis://one:1/0"


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("sentinel://hunter2@one,two", "/service"),
        ("cluster://me:hunter2@one:x", "host:port"),
        ("cluster://", "host:port"),
        ("cluster://one,,two", "host:port"),
        ("cluster://one:70000", "host:port"),
        ("valkey://me:hunter2@one:70000", "0 to 65535"),
        ("rediss://me:hunter2@one:six", "0 to 65535"),
        ("cluster://me:hunter2@one/5", "database 0"),
        ("memcached://hunter2@one", "sentinel://"),
        ("redis://one?foo=1", "client_name, db only"),
        ("redis://hun?ter2@one", "%3F"),
        ("redis://one?decode_responses=1", "client_name, db only"),
        ("redis://one?ssl_ca_certs=hunter2", "client_name, db only"),
        ("cluster://one?sentinel_password=hunter2", "client_name, db only"),
        ("redis://one?db=", "no value"),
        ("redis://me:hunter2@one?db=x", "the database"),
        ("redis://me:hunter2@one/jobs", "the database"),
        ("sentinel://me:hunter2@one/jobs/x", "the database"),
    ],
)
def test_an_address_that_names_no_server_is_refused_without_being_shown(url: str, remedy: str) -> None:
    with pytest.raises(InvalidValue, match=remedy) as caught:
        parse_address(url)
    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)
