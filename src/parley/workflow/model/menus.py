"""The menus of the executor's questions: what the human may choose, and the effect of words alone."""

from __future__ import annotations

from parley.base.options import ABANDON, RETRY, STOP, Menu, Option, listed
from parley.workflow.model.flow import PendingQuestion

_STOP = Option(STOP, "stop the workflow", then="its lead hears of it and decides what comes next")


def menu_for(pending: PendingQuestion) -> Menu:
    """The menu of a question, by what it is about."""
    agent = pending.agent
    if pending.about == "plan":
        return Menu((_STOP,), "the change is then not approved, and they go to the architecture group")
    abandon = Option(ABANDON, f"go on without {agent} and without all that depends on it")
    if pending.about == "unresolved":
        return Menu((abandon, _STOP), f"they become the answer to all of these notes, and {agent} goes on with it")
    retry = Option(RETRY, f"try {agent} again", "approve", "your words go along as advice")
    return Menu((retry, abandon, _STOP), f"they are advice, and {agent} is tried again with them")


def shown(question: str, pending: PendingQuestion) -> str:
    """The menu as the question shows it."""
    verdicts = {
        "plan": (("approve", "approve the change"), ("revise", "refuse it, and say why")),
        "unresolved": (("approve", f"let {pending.agent} go on as it thinks best"),),
    }
    return listed(question, menu_for(pending), verdicts.get(pending.about, ()))
