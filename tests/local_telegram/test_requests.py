"""The ways a request may be written, and who may ask at all."""

import json
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest

from codemojex.local_telegram import LocalTelegram
from tests.local_telegram.conftest import bot_for
from tests.support.telegram import ControlRefused, People
from tests.support.waiting import until


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


@pytest.mark.parametrize("header", [{"Host": "["}, {"Origin": "http://["}, {"Origin": "http://[::"}])
async def test_a_host_or_an_origin_that_is_no_address_is_named(
    telegram: LocalTelegram, http: aiohttp.ClientSession, header: dict[str, str]
):
    async with http.get(f"{telegram.url}/control/state", headers=header) as answer:
        assert (answer.status, next(iter(header)) in await answer.text()) == (400, True)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Encoding": "gzip"}, b"this is not gzip"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\nContent-Disposition: form-data; name=text\r\n"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b\r\n\r\n\r\n"),
    ],
)
async def test_a_body_that_breaks_off_is_a_bad_request(
    telegram: LocalTelegram, http: aiohttp.ClientSession, headers: dict[str, str], body: bytes
):
    for path in (f"/bot{telegram.token}/sendMessage", "/control/send"):
        own = {"Content-Type": "application/json", **headers}
        async with http.post(f"{telegram.url}{path}", data=body, headers=own) as answer:
            assert answer.status in (400, 415)


HUGE = 10**400
NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("act", "field", "body"),
    [
        ("clock", "shift_s", {"shift_s": NAN}),
        ("clock", "shift_s", {"shift_s": INFINITE}),
        ("clock", "shift_s", {"shift_s": HUGE}),
        ("clock", "shift_s", {"shift_s": -1e12}),
        ("clock", "shift_s", {"shift_s": 1e12}),
        ("chaos", "kinds", {"probability": 0.5, "kinds": []}),
        ("chaos", "probability", {"probability": NAN}),
        ("chaos", "probability", {"probability": 1.5}),
        ("chaos", "probability", {"probability": -0.5}),
        ("chaos", "seed", {"probability": 0.5, "seed": HUGE}),
        ("faults", "delay_s", {"kind": "slow", "delay_s": NAN}),
        ("faults", "times", {"kind": "400", "times": HUGE}),
        ("faults", "kind", {"kind": 400}),
        ("send", "user_id", {"user_id": HUGE, "chat_id": 1, "text": "a"}),
        ("send", "chat_id", {"user_id": 1, "chat_id": 2**63, "text": "a"}),
        ("press", "wait_s", {"user_id": 1, "chat_id": 1, "message_id": 1, "data": "a", "wait_s": 61}),
        ("groups", "members", {"title": "G", "members": [HUGE]}),
        ("groups", "members", {"title": "G", "members": [True]}),
        ("people", "deep", {"name": "A", "deep": json.loads("[" * 70 + "]" * 70)}),
    ],
)
async def test_a_value_that_nothing_can_hold_is_refused_by_its_name_and_changes_nothing(
    people: People, bot: Bot, act: str, field: str, body: dict[str, object]
):
    before = await people.get("state")
    with pytest.raises(ControlRefused, match=field):
        await people.post(act, **body)
    assert await people.get("state") == before
    for _ in range(20):  # a fault that was begun would be met
        assert (await bot.get_me()).is_bot


@pytest.mark.parametrize(
    ("method", "fields", "named"),
    [
        ("getUpdates", {"timeout": HUGE}, "timeout"),
        ("getUpdates", {"timeout": "9" * 400}, "timeout"),
        ("deleteMessage", {"chat_id": 1, "message_id": "9" * 400}, "message id"),
        ("getChat", {"chat_id": HUGE}, "chat id"),
        ("getChat", {"chat_id": INFINITE}, "chat id"),
        (
            "sendMessage",
            {"chat_id": 1, "text": "a", "entities": [{"type": "bold", "offset": HUGE, "length": 1}]},
            "entit",
        ),
        ("sendMessage", {"chat_id": 1, "text": "a", "nobody knows": [HUGE]}, "nobody knows"),
    ],
)
async def test_a_number_beyond_64_bits_is_a_bad_request(
    telegram: LocalTelegram, http: aiohttp.ClientSession, method: str, fields: dict[str, object], named: str
):
    async with http.post(f"{telegram.url}/bot{telegram.token}/{method}", json=fields) as answer:
        assert answer.status == 400
        assert named in (await answer.json())["description"]


@pytest.mark.parametrize("query", ["changes?after=" + "9" * 400, "changes?timeout_ms=" + "9" * 400, "log?after=1e9"])
async def test_a_number_of_a_query_is_refused_by_its_name(
    telegram: LocalTelegram, query: str, http: aiohttp.ClientSession
):
    async with http.get(f"{telegram.url}/control/{query}") as answer:
        assert answer.status == 400
        assert query.partition("?")[2].partition("=")[0] in (await answer.json())["error"]


URLS = ["http://" + "a" * 70 + ".example/", "http://[", "http://a:99999/", "http://:80/", "http://a b/", "http://.a/"]


@pytest.mark.parametrize("url", URLS)
async def test_a_webhook_that_no_host_can_have_is_refused(telegram: LocalTelegram, bot: Bot, url: str):
    with pytest.raises(TelegramBadRequest, match="invalid webhook URL"):
        await bot.set_webhook(url)
    assert await bot.get_updates() == []


@pytest.mark.parametrize("url", URLS)
async def test_the_delivery_outlives_whatever_stands_in_the_data_file(tmp_path: Path, url: str):
    first = LocalTelegram(data_file=tmp_path / "state.json")
    await first.start()
    await first.stop()
    state = json.loads((tmp_path / "state.json").read_text())
    state["bot"]["webhook"]["url"] = url
    (tmp_path / "state.json").write_text(json.dumps(state))
    telegram = LocalTelegram(data_file=tmp_path / "state.json")
    await telegram.start()
    bot = bot_for(telegram)
    async with People(telegram.url) as people:
        await people.start(await people.add_person("Ada"))
        await until(lambda: told(bot), "the trouble is told")
        await bot.delete_webhook()
        assert len(await bot.get_updates(timeout=10)) == 1
    await bot.session.close()
    await telegram.stop()


async def told(bot: Bot) -> bool:
    return (await bot.get_webhook_info()).last_error_message is not None


async def test_faults_of_updates_meet_no_other_call(telegram: LocalTelegram, people: People, bot: Bot):
    await people.post("chaos", probability=1, kinds=["duplicate", "reorder"])
    assert (await bot.get_me()).is_bot
    assert await bot.delete_webhook()
