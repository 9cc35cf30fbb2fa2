"""A design without gaps, as files, and the roles that exist."""

import json

from parley.workflow.model.terms import PLAN, SHARED_STATUS, instructions_of, output_of

ROLES = ("coder", "reviewer", "writer", "project-lead", "proxy")
SCHEMA = f"{output_of('database')}/schema.sql"
ROUTES = f"{output_of('api')}/routes.json"

TO_DOCS = "to: docs, by: database_verifier, criteria: every column has a comment, on_failure: back to database"

GOOD_PLAN = f"""\
---
task: user_management
goal: a service that keeps users
stages:
  - [database]
  - [api, docs]
agents:
  database:
    role: coder
    task_id: create_user_table_1727539200
    depends_on: []
    verifier: database_verifier
    outputs: [{SCHEMA}]
    owns: ["db/**"]
    forbids: ["web/**"]
    objective: the users table
    boundaries: no other tables
    deliverable: the schema and its migration
    acceptance: {{text: the migration runs twice without an error, commands: ["python -m pytest -q tests/db"]}}
  api:
    role: coder
    task_id: user_endpoints_1727539201
    depends_on: [database]
    verifier: api_verifier
    inputs: [agents/database/task_output/schema.sql, INTENT.md]
    outputs: [{ROUTES}]
    owns: ["src/**/api_*.py", "tests/api"]
    objective: the endpoints for users
    boundaries: nothing of the database
    deliverable: the endpoints with tests
    acceptance: {{commands: ["python -m pytest -q tests/api"]}}
  docs:
    role: writer
    task_id: user_guide_1727539202
    depends_on: [database]
    verifier: api_verifier
    inputs: [{SCHEMA}]
    owns: ["docs/"]
    objective: a guide
    boundaries: only docs
    deliverable: docs/users.md
    acceptance: {{text: "docs/users.md names every column of the table"}}
  database_verifier: {{task: verifier, role: reviewer}}
  api_verifier:
    task: verifier
    role: reviewer
checkpoints:
  - {{from: database, to: api, by: database_verifier, criteria: every column has a type, on_failure: back to database}}
  - {{from: database, {TO_DOCS}}}
escalation: the solution architect settles technical questions, the user those about requirements
---
# User management

The schema comes first.
"""

DOER = """\
# {name}

## Input Requirements
{inputs}

## Output Requirements
{outputs}

## Success Criteria
The acceptance commands of the plan end with 0.

## Completion Drive
Note every assumption about the data; requirements are escalated.
"""
VERIFIER = "# {name}\n\nRead the outputs and the notes of whom you verify, and run the acceptance commands.\n"

STATUS = {
    "task_id": "user_management",
    "status": "pending",
    "session_start": None,
    "agents": {
        "database": {"status": "pending", "completion_drive_notes_count": 0, "last_update": None},
        "api": {
            "status": "pending",
            "completion_drive_notes_count": 0,
            "dependencies": ["database"],
            "last_update": None,
        },
        "docs": {
            "status": "pending",
            "completion_drive_notes_count": 0,
            "dependencies": ["database"],
            "last_update": None,
        },
    },
    "verification": {
        "database_verifier": {"status": "pending", "assigned_agents": ["database"]},
        "api_verifier": {"status": "pending", "assigned_agents": ["api", "docs"]},
    },
    "overall_completion_drive_gate": "blocked",
}


def doer(name: str, inputs: str, outputs: str) -> str:
    return DOER.format(name=name, inputs=inputs, outputs=outputs)


def good() -> dict[str, str]:
    return {
        PLAN: GOOD_PLAN,
        SHARED_STATUS: json.dumps(STATUS, indent=2),
        instructions_of("database"): doer("database", "INTENT.md says what a user is.", f"- `{SCHEMA}`: SQL"),
        instructions_of("api"): doer(
            "api", "- INTENT.md\n- `agents/database/task_output/schema.sql`.", f"Write {ROUTES}."
        ),
        instructions_of("docs"): doer("docs", f"- [the schema]({SCHEMA})", "docs/users.md"),
        instructions_of("database_verifier"): VERIFIER.format(name="database_verifier"),
        instructions_of("api_verifier"): VERIFIER.format(name="api_verifier"),
    }
