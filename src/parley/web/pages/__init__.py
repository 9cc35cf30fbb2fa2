"""The pages and their parts: each module has one page, and lists the addresses that it answers."""

from __future__ import annotations

from parley.web.pages import (
    answer,
    artifacts,
    changes,
    conversation,
    costs,
    home,
    hosts,
    job,
    job_head,
    people,
    question_link,
    record,
    start,
    steer,
    timeline,
    workflow,
)

PAGES = (
    *home.PAGES,
    *costs.PAGES,
    *job.PAGES,
    *job_head.PAGES,
    *conversation.PAGES,
    *record.PAGES,
    *workflow.PAGES,
    *timeline.PAGES,
    *artifacts.PAGES,
    *question_link.PAGES,
    *steer.PAGES,
    *start.PAGES,
    *people.PAGES,
    *hosts.PAGES,
    *answer.PAGES,
    *changes.PAGES,
)  # address, methods, function
