"""Reads a Bot API request: path, query, urlencoded, multipart or JSON body, checked by aiogram's model of the method.

In a form everything is a string; a field is read as JSON only where the method's own schema wants a structure. A
value that the model refuses is a 400 before anything happens. Uploaded files are not simulated.
"""

import json
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import aiogram.methods
from aiogram.methods.base import TelegramMethod
from aiohttp import web
from pydantic import BaseModel, ValidationError

from codemojex.local_telegram.api.bodies import NOT_UTF8, UNREADABLE, json_object, number, trouble
from codemojex.local_telegram.errors import ApiError, Json, bad_request, not_simulated

Method = TelegramMethod[Any]  # the answer's type differs per method

METHODS: dict[str, type[Method]] = {
    model.__api_method__.lower(): model
    for model in vars(aiogram.methods).values()
    if isinstance(model, type) and issubclass(model, TelegramMethod) and model is not TelegramMethod
}
# Fields that change nothing that a chat shows; taken and ignored.
COSMETIC = {
    "allow_paid_broadcast",
    "disable_notification",
    "disable_web_page_preview",
    "link_preview_options",
    "message_effect_id",
    "protect_content",
}


def model_of(name: str) -> type[Method]:
    """The model of a method by its name in any case; 404 in Telegram's words for a name that it does not know."""
    model = METHODS.get(name.lower())
    if model is None:
        raise ApiError(404, "Not Found: method not found")
    model.model_rebuild()  # its fields are read before it is used
    return model


async def read_fields(request: web.Request) -> Json:
    """All parameters of the request, body over query; strings, or JSON values when the body is JSON."""
    fields: Json = dict(request.query)
    kind = request.content_type
    if request.method == "GET" or not request.can_read_body:
        pass
    elif kind == "application/json":
        try:
            fields.update(await json_object(request))
        except UNREADABLE as error:
            raise bad_request("can't parse JSON object") from error
    elif kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        try:
            form: Mapping[str, Any] = await request.post()  # a value is a string or an upload
        except UNREADABLE as error:
            raise bad_request("can't parse the form") from error
        for name, value in form.items():
            if not isinstance(value, str):
                raise not_simulated("file upload")
            fields[name] = value
    for name, value in fields.items():
        if wrong := trouble([name, value]):
            raise bad_request(wrong if wrong == NOT_UTF8 else f"can't parse {name[:64].replace('_', ' ')}: {wrong}")
    return fields


def check(model: type[Method], fields: Json, simulated: set[str]) -> Method:
    """The request as a checked model. `simulated` names the fields that the server honours."""
    values: Json = {}
    for name, value in fields.items():
        field = model.model_fields.get(name)
        if field is None or value is None:
            continue  # the real server ignores what it does not know
        if name not in simulated and name not in COSMETIC:
            raise not_simulated(f"{model.__api_method__} with {name}")
        if isinstance(value, str) and _structured(field.annotation):
            if not value:
                continue
            try:
                value = json.loads(value)  # noqa: PLW2901  # the decoded form of the same value
            except UNREADABLE as error:
                raise bad_request(f"can't parse {name.replace('_', ' ')} JSON object") from error
            if wrong := trouble(value):
                raise bad_request(f"can't parse {name.replace('_', ' ')}: {wrong}")
        values[name] = value
    try:
        call = model.model_validate(values)
    except ValidationError as error:
        raise _refusal(error) from error
    for name in values:  # a text may have become a number
        value = getattr(call, name)
        if isinstance(value, int) and not number(value):
            raise bad_request(f"can't parse {name.replace('_', ' ')}: its number is beyond 64 bits")
    return call


def _refusal(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False, include_input=False)[0]
    place = [str(part) for part in first["loc"]]
    name = place[0] if place else "request"
    if first["type"] == "missing" and len(place) == 1:
        return bad_request("message text is empty" if name == "text" else f"{name} is empty")
    return bad_request(f"can't parse {name.replace('_', ' ')}: {'.'.join(place)}: {first['msg']}")


def _structured(annotation: Any) -> bool:  # a type of any kind
    """Whether a form carries this field as JSON: a list or an object, never a text."""
    if annotation is str:
        return False
    if get_origin(annotation) in (list, dict):
        return True
    if isinstance(annotation, type):
        return issubclass(annotation, BaseModel)
    arguments = [argument for argument in get_args(annotation) if argument is not type(None)]
    return str not in arguments and any(_structured(argument) for argument in arguments)
