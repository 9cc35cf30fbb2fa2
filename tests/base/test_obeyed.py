"""Which names tools run or obey: the table, and how it is matched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.base.obeyed import TABLE, by_name, foremost, obeyed

_OBEYED = """
.envrc sub/.envrc .env .env.local .vscode/tasks.json sub/.vscode/launch.json .idea/workspace.xml
.devcontainer/devcontainer.json x.code-workspace .github/workflows/ci.yml .github/actions/a/action.yml
.github/copilot-instructions.md .gitlab-ci.yml .circleci/config.yml azure-pipelines.yml Jenkinsfile
bitbucket-pipelines.yml .travis.yml .buildkite/pipeline.yml .drone.yml .forgejo/workflows/x .gitea/workflows/x
.woodpecker.yml .woodpecker/a.yml .ci/run .github/dependabot.yml renovate.json parley.toml sub/parley.toml
.parley/x .parley-reports/x .claude/settings.json sub/.claude/hooks/x CLAUDE.md sub/AGENTS.md .mcp.json
.cursor/rules/x .cursorrules .codex/config.toml GEMINI.md .aider.conf.yml .windsurfrules package.json
web/package.json setup.py setup.cfg pyproject.toml conftest.py tests/conftest.py sitecustomize.py usercustomize.py
lib/x.pth noxfile.py tox.ini Makefile GNUmakefile rules.mk CMakeLists.txt justfile Taskfile.yml Rakefile Gemfile
build.rs .cargo/config.toml build.gradle build.gradle.kts gradlew gradle/wrapper/gradle-wrapper.properties pom.xml
mvnw .mvn/jvm.config composer.json Dockerfile Dockerfile.dev docker-compose.yml compose.yaml .npmrc .yarnrc.yml
.yarn/releases/x.cjs .pnpmfile.cjs .pnp.cjs .bazelrc BUILD BUILD.bazel WORKSPACE flake.nix shell.nix Vagrantfile
.gitattributes .gitmodules .gitconfig .gdbinit .lldbinit .vimrc .exrc .nvim.lua .dir-locals.el .ssh/config Procfile
x.service x.timer crontab .husky/pre-commit .husky/_/husky.sh .githooks/pre-push .pre-commit-config.yaml
lefthook.yml .tool-versions mise.toml .nvmrc webpack.config.js vite.config.ts .git-hooks/x hooks/post-merge
.eslintrc.js .bashrc .zshenv .lfsconfig sub/HEAD sub/config fixtures/x.git/commondir .hg/hgrc lib/.hg/hgrc .jj/repo
.bsp/sbt.json .run/x.run.xml sub/.claude-plugin/plugin.json .luarc.json .formatter.exs docs/conf.py desktop.ini
.storybook/main.js build/x.gni .rules .gitlint profile.ps1 .editorconfig .mailmap .opencode.json .amp/settings.json
.some-new-agent/rules.md sub/.some-new-tool.toml .nvimrc.lua .lazy.lua .moon/tasks.yml .rbenv-vars hk.pkl prek.toml
debian/rules PKGBUILD hooks/applypatch-msg tools/hooks/fsmonitor-watchman .direnv/x .gitconfig.local CODEOWNERS
dev-requirements.txt requirements/dev.txt compile_commands.json main.tf.json .husky/.gitignore .claude/.gitkeep
"""
_PLAIN = """
README.md src/main.py a.txt docs/guide.md lib/hooks.py src/app.ts index.html data/values.csv tests/test_a.py
LICENSE src/build/x.c env.py setup/notes.md my.package.json.txt .gitignore src/.gitkeep .dockerignore src/hooks/use.ts
src/tasks/run.py docs/project.md ignore keep
"""

OBEYED, PLAIN = _OBEYED.split(), _PLAIN.split()


@pytest.mark.parametrize("path", OBEYED)
def test_what_tools_run_or_obey_is_known_in_any_case(path: str) -> None:
    assert by_name(path)
    assert by_name(path.upper())


@pytest.mark.parametrize("path", PLAIN)
def test_what_no_tool_obeys_is_not_named(path: str) -> None:
    assert by_name(path) == ""


def test_programs_and_links_are_named_whatever_they_are_called() -> None:
    modes = {"a": ("", "100755"), "b": ("100644", "120000"), "c": ("100755", "100644"), "d": ("100644", "100755")}

    assert [(one.path, one.by.partition(":")[0]) for one in obeyed(modes)] == [
        ("a", "a new program"), ("b", "a link"), ("d", "a new program"),
    ]  # fmt: skip


def test_what_goes_away_is_named_too_and_a_reason_of_this_machine_goes_first() -> None:
    found = obeyed({".envrc": ("100644", ""), "tools/x": ("100644", "100644")}, {"tools/x": "git: alias.x names it"})

    assert [(one.path, one.by) for one in found] == [(".envrc", "the shell"), ("tools/x", "git: alias.x names it")]


def test_many_of_one_kind_hide_none_of_another() -> None:
    flood = {f".a/{number}": ("", "100644") for number in range(200)} | {
        f"b{n}/Makefile": ("", "100644") for n in range(99)
    }
    few = {".envrc": ("", "100644"), "z.sh": ("", "100755"), "tools/x": ("", "100644"), "y": ("", "120000")}
    found = obeyed({**flood, **few}, {"tools/x": "git: a hook (core.hooksPath)"})

    assert [one.path for one in foremost(found, 7)] == [
        "tools/x",
        ".envrc",
        "b0/Makefile",
        ".a/0",
        "y",
        "z.sh",
        "b1/Makefile",
    ]
    assert foremost(found[:7], 7) == list(found[:7])


@given(st.text(max_size=60))
def test_any_name_has_an_answer(path: str) -> None:
    assert by_name(path) in ("", *TABLE)


@given(st.sampled_from(OBEYED), st.sampled_from(["", ".", " ", "::$DATA", "\u200c", "\ufe0f"]))
def test_names_that_other_filesystems_take_for_the_same_are_the_same(path: str, end: str) -> None:
    assert by_name(f"{path}{end}")
    assert by_name(f"{path[:3]}\u200c{path[3:]}")
