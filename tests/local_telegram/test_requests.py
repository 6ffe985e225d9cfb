"""The ways a request may be written, and who may ask at all."""

import aiohttp
import pytest
import pytest_asyncio

from codemojex.local_telegram import LocalTelegram
from tests.support.telegram import People


@pytest_asyncio.fixture
async def http():
    async with aiohttp.ClientSession() as session:
        yield session


async def test_every_kind_of_body_is_read(
    telegram: LocalTelegram, http: aiohttp.ClientSession, people: People, ada: int
):
    url = f"{telegram.url}/bot{telegram.token}/sendMessage"
    fields = {
        "chat_id": str(ada),
        "text": "[1]",
        "reply_markup": '{"inline_keyboard":[[{"text":"a","callback_data":"b"}]]}',
    }
    multipart = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields.items():
        multipart.add_field(name, value)
    for request in (
        http.get(url, params=fields),
        http.post(url, params=fields),
        http.post(url, data=fields),
        http.post(url, data=multipart),
        http.post(url, json={**fields, "chat_id": ada}),
        http.post(url, json={"chat_id": ada, "text": "[1]", "reply_markup": {"inline_keyboard": []}}),
    ):
        async with request as answer:
            assert (await answer.json())["result"]["text"] == "[1]"
    async with http.post(f"{telegram.url}/bot{telegram.token}/GETME") as answer:
        assert (await answer.json())["result"]["is_bot"] is True


@pytest.mark.parametrize(
    ("method", "fields", "status", "description"),
    [
        ("getNothing", {}, 404, "Not Found: method not found"),
        ("sendMessage", {"text": "x"}, 400, "Bad Request: chat_id is empty"),
        ("sendMessage", {"chat_id": "1"}, 400, "Bad Request: message text is empty"),
        (
            "sendMessage",
            {"chat_id": "1", "text": "x", "reply_markup": "{"},
            400,
            "Bad Request: can't parse reply markup JSON object",
        ),
        ("sendMessage", {"chat_id": "1", "text": "x"}, 400, "Bad Request: chat not found"),
        ("sendDice", {"chat_id": "1"}, 501, "not simulated: sendDice"),
        (
            "sendMessage",
            {"chat_id": "1", "text": "x", "receiver_user_id": "5"},
            501,
            "not simulated: sendMessage with receiver_user_id",
        ),
        (
            "getUpdates",
            {"limit": "many"},
            400,
            "Bad Request: can't parse limit: limit: Input should be a valid integer, "
            "unable to parse string as an integer",
        ),
    ],
)
async def test_refusals_are_in_telegrams_format(
    telegram: LocalTelegram, http: aiohttp.ClientSession, *, method: str, fields: dict, status: int, description: str
):
    async with http.post(f"{telegram.url}/bot{telegram.token}/{method}", data=fields) as answer:
        assert answer.status == status
        assert await answer.json() == {"ok": False, "error_code": status, "description": description}


JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "application/json; charset=nope"}, b"{}"),
        (JSON, b"\xff\xfe"),
        (JSON, b"[]"),
        (JSON, b'{"a":' + b"[" * 100_000),
        (JSON, b'{"chat_id":%d,"text":"a\\ud83d"}'),
        (FORM, b"text=\xff"),
        (FORM, b"chat_id=%d&text=a&reply_markup=" + b"[" * 100_000),
        ({"content-type": "multipart/form-data"}, b"x"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"junk"),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_at_the_door(
    telegram: LocalTelegram, people: People, ada: int, headers: dict[str, str], body: bytes
):
    body = body.replace(b"%d", str(ada).encode())
    before = await people.messages(ada)
    async with aiohttp.ClientSession(telegram.url, headers=headers) as http:
        async with http.post(f"/bot{telegram.token}/sendMessage", data=body) as answer:
            assert (answer.status, (await answer.json())["description"][:11]) == (400, "Bad Request")
        if headers["content-type"].startswith("application/json"):
            async with http.post("/control/send", data=body) as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]
    assert await people.messages(ada) == before


async def test_other_sites_and_other_host_names_are_refused(telegram: LocalTelegram, http: aiohttp.ClientSession):
    control = f"{telegram.url}/control/people"
    async with http.post(control, json={"name": "Eve"}, headers={"Origin": "https://evil.example"}) as answer:
        assert answer.status == 403
    async with http.get(f"{telegram.url}/control/state", headers={"Host": "evil.example"}) as answer:
        assert answer.status == 403
    async with http.post(control, data='{"name": "Eve"}', headers={"Content-Type": "text/plain"}) as answer:
        assert answer.status == 415
    async with http.get(f"{telegram.url}/page/..%2Fserver.py") as answer:
        assert answer.status == 404


async def test_control_errors_name_the_field(people: People):
    for body, reason in (
        ({"name": ""}, "a name of"),
        ({"name": 5}, "name must be str"),
        ({"name": "A", "username": "!"}, "username"),
    ):
        with pytest.raises(Exception, match=reason):
            await people.post("people", **body)


async def test_an_address_beyond_loopback_needs_permission():
    with pytest.raises(ValueError, match="not a loopback address"):
        LocalTelegram(host="0.0.0.0")


async def test_a_second_server_takes_another_port(telegram: LocalTelegram):
    second = LocalTelegram(port=telegram.port)
    await second.start()
    assert second.port != telegram.port
    await second.stop()
