"""What the executor's questions let the human choose, and what words do that choose nothing."""

from __future__ import annotations

from parley.options import ABANDON, RETRY, STOP, Menu, Option, listed
from parley.workflow.flow import Pending

_STOP = Option(STOP, "stop the workflow; its lead hears of it and decides what comes next")


def menu_for(pending: Pending) -> Menu:
    """What a question lets the human choose: it follows from what the question is about."""
    agent = pending.agent
    if pending.about == "plan":
        return Menu((_STOP,), "the change is then not approved, and they go to the architecture group")
    abandon = Option(ABANDON, f"go on without {agent} and without all that depends on it")
    if pending.about == "unresolved":
        return Menu((abandon, _STOP), f"they become the answer to all of these notes, and {agent} goes on with it")
    retry = Option(RETRY, f"try {agent} again; your words go along as advice", "approve")
    return Menu((retry, abandon, _STOP), f"they are advice, and {agent} is tried again with them")


def shown(question: str, pending: Pending) -> str:
    """The menu as the question shows it."""
    verdicts = {
        "plan": (("approve", "approve the change"), ("revise", "refuse it, and say why")),
        "unresolved": (("approve", f"let {pending.agent} go on as it thinks best"),),
    }
    return listed(question, menu_for(pending), verdicts.get(pending.about, ()))
