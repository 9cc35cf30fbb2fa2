"""Two hosts on one machine: two clones of a project, each with a home and user folders of its own, and one bus."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cli.home import Home
from tests.postgres_server import Server

WORK = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "intent"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "clear"}}]}
  project-lead:
    - match: '\[PLAN\]'
      do: [{write: {path: PLAN.md, text: "plan"}}, {assert: {artifact: PLAN.md, text: "sound?"}}]
    - {match: '\[ANSWER approve\]', state: PLAN, do: [{outcome: {outcome: APPROVED_PLAN, reason: ok}}]}
    - match: '\[EXECUTE\]'
      do: [{write: {path: first.txt, text: "1"}}, {send: {to: writer, as: one, text: "write it"}}]
    - match: 'written'
      do:
        - {close: {thread: one}}
        - {write: {path: WORK_SUMMARY.md, text: "work"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "done?"}}
    - {match: '\[ANSWER approve\]', state: EXECUTE, do: [{outcome: {outcome: APPROVED_WORK, reason: "all good"}}]}
  writer:
    - match: 'write it'
      do:
        - {write: {path: begun.txt, text: "1"}}
        - {sleep: SECONDS}
        - {write: {path: ended.txt, text: "2"}}
        - {say: "written"}
human:
  - {match: '.', repeat: true, verdict: approve, text: 'yes'}
"""


def git(folder: Path, *words: str) -> str:
    """Run git, as the user would."""
    who = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@dataclass
class TwoHomes:
    """The hosts, and what they share."""

    here: Home
    there: Home
    remote: Path

    def state(self) -> str:
        """What the remote has of all jobs."""
        return git(self.remote, "for-each-ref", "--format=%(refname) %(objectname)", "refs/parley")


def two_homes(folder: Path, server: Server) -> TwoHomes:
    """Two hosts whose homes have one bus."""
    origin, remote = folder / "origin", folder / "remote.git"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / "a.txt").write_text("a\n")
    git(origin, "add", ".")
    git(origin, "commit", "-q", "-m", "first")
    git(folder, "init", "-q", "--bare", str(remote))
    homes = []
    for name in ("here", "there"):
        git(folder, "clone", "-q", str(origin), name)
        own = folder / f"{name}-user"
        (own / "config" / "parley").mkdir(parents=True)
        settings = f'[hosts]\nremote = "{remote}"\n\n[servers]\noffice = "{server.url}"\n\n[proxy]\nrehearse = true\n'
        (own / "config" / "parley" / "parley.toml").write_text(settings)
        places = {f"XDG_{kind.upper()}_HOME": str(own / kind) for kind in ("config", "state", "data")}
        homes.append(Home(folder / name, {**places, "PARLEY_MEMORY": "", "GIT_CONFIG_GLOBAL": str(own / "gitconfig")}))
        (own / "gitconfig").write_text("[user]\nname = u\nemail = u@example.org\n")
    here, there = homes
    invitation = str(folder / "invitation")
    for home, words in ((here, ("copy", "office")), (here, ("invite", invitation)), (there, ("join", invitation))):
        done = home.run("bus", *words)
        assert done.code == 0, done
    return TwoHomes(here, there, remote)
