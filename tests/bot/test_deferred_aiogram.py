"""aiogram comes without its wait: models are completed when they are used, and then they are what they always were."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.architecture.sources import ROOT

LOOK = """
import gc, inspect, json, weakref
from codemojex import app
app._import_talking()
import codemojex.local_telegram
from aiogram import methods, types
from pydantic import BaseModel

models = [
    model for name in methods.__all__
    if inspect.isclass(model := getattr(methods, name)) and issubclass(model, BaseModel)
]
deferred = sum(not model.__pydantic_complete__ for model in models)
update = {"update_id": 1, "message": {"message_id": 2, "date": 0, "chat": {"id": 3, "type": "private"}, "text": "hi"}}
text = types.Update.model_validate(update).message.text
def answered():  # in a function as in aiogram: what a module names itself would be kept anyway
    model = methods.base.Response[types.Message]
    return model.model_validate({"ok": True, "result": update["message"]}).result, weakref.ref(model)
answer, model = answered()
gc.collect()
kept = model() is not None
sent = methods.SendMessage(chat_id=1, text=answer.text).text
open_ = [model.__name__ for model in models if not (model.model_rebuild() is not False and model.__pydantic_complete__)]
class Other(BaseModel):
    name: str
others = Other.__pydantic_complete__ and "defer_build" not in BaseModel.model_config
print(json.dumps([len(models), deferred, text, sent, open_, others, kept]))
"""


def test_models_are_completed_when_they_are_used() -> None:
    look = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert look.returncode == 0, look.stderr
    models, deferred, text, sent, open_, others, kept = json.loads(look.stdout)
    assert models > 150
    assert deferred > 0.9 * models, "something imported aiogram before it could be deferred"
    assert (text, sent) == ("hi", "hi")
    assert open_ == []
    assert others, "pydantic is for everybody else what it was"
    assert kept, "the model of an answer is built anew after each collection of garbage"
