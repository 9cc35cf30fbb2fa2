"""A table of files that tools run or obey: hooks, editors' tasks, CI, builds, agents' instructions.

The table is matched by name; no file is read. A change in such a file takes effect when a tool next reads it, so it is
named before it is approved, merged or pushed. Names are compared without regard to case: a checkout may lie on a
case-insensitive filesystem. A pattern with a `/` before its end is anchored at the root; one
that begins with `**/`, or has no `/`, holds in every folder.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parley.base.unportable import folded

LINK, PROGRAM = "120000", "100755"
EVERYWHERE = "**/"


@dataclass(frozen=True, slots=True)
class Obeyed:
    """A changed path, and what runs or obeys it."""

    path: str
    by: str

    def document(self) -> dict[str, str]:
        """As `--json` gives it, and the bus keeps it."""
        return {"path": self.path, "by": self.by}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Tool -> the patterns of its files. The first match counts.
TABLE: Mapping[str, tuple[str, ...]] = {
    "git hooks": _words(
        """
        **/.husky/ **/.githooks/ **/.git-hooks/ **/githooks/ **/git-hooks/ **/git_hooks/ **/.hooks/ .huskyrc*
        husky.config.* .pre-commit-config.y*ml .pre-commit-hooks.y*ml lefthook*.y*ml .lefthook*.y*ml lefthook*.toml
        .lefthook* .lintstagedrc* lint-staged.config.* .overcommit.yml **/.overcommit/ .simple-git-hooks*
        simple-git-hooks* commitlint.config.* .commitlintrc* .captainhook* captainhook*.json grumphp.y*ml*
        **/hooks/pre-* **/hooks/post-* **/hooks/commit-msg **/hooks/prepare-commit-msg
        **/hooks/reference-transaction **/hooks/applypatch-msg **/hooks/update **/hooks/sendemail-validate
        **/hooks/fsmonitor* **/hooks/push-to-checkout **/hooks/proc-receive **/hooks/p4-* hk.pkl hk.toml prek.toml
        .gitlint .czrc .cz.toml .cz.json .versionrc* .bumpversion.cfg .bumpversion.toml
        """
    ),
    "git": _words(
        """
        .gitattributes .gitmodules .gitconfig* gitconfig gitconfig.* *.gitconfig .lfsconfig .mailmap
        """
    ),
    "the shell": _words(
        """
        .envrc .envrc.* .env .env.* .autoenv* .bashrc .bash_profile .bash_aliases .bash_login .bash_logout .profile
        .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc **/.config/fish/ config.fish
        .tmux.conf .tmuxinator* .screenrc .xinitrc .xprofile .xsession .pam_environment
        .xonshrc .elvish/ .lesskey .dircolors *profile.ps1 .zlogin .zsh/ .bash.d/ .bashrc.d/
        """
    ),
    "version managers": _words(
        """
        .tool-versions mise.toml mise.*.toml .mise.toml .mise.*.toml **/.mise/ .rtx.toml .nvmrc .node-version
        .python-version .ruby-version .ruby-gemset .rvmrc .java-version .sdkmanrc .terraform-version .go-version
        .swift-version .php-version .asdfrc volta.json .prototools hermit.hcl **/bin/hermit* rust-toolchain
        rust-toolchain.toml **/.config/mise*/ lean-toolchain aqua.y*ml pkgx.y*ml tea.y*ml
        """
    ),
    "editors": _words(
        """
        **/.vscode/ **/.vscode-*/ **/.idea/ **/.fleet/ **/.zed/ **/.vs/ **/.settings/ **/.nvim/ **/.sublime/
        *.code-workspace *.sublime-project *.sublime-workspace *.iml *.ipr *.iws .project .classpath .vimrc .gvimrc
        _vimrc .exrc .nvimrc .nvim.lua .lvimrc .local.vimrc .vim/ **/.vim/ .ycm_extra_conf.py .dir-locals*.el
        .projectile .emacs .emacs.d/ .nanorc .kak/ **/.helix/ .ensime .clangd .ccls pyrightconfig.json *.xcscheme
        *.xcworkspace/ **/*.xcodeproj/
        .luarc.json* .vimspector.json .neoconf.json coc-settings.json session.vim .kakrc **/.run/ **/.theia/ **/.nova/
        compile_commands.json compile_flags.txt *.xcconfig analysis_options.yaml lsp.json tmuxp.y*ml
        **/.lapce/ **/.bsp/ **/.metals/ **/.bloop/ **/.ruby-lsp/ .solargraph.yml hie.yaml **/.eclipse/ *.launch
        """
    ),
    "development containers": _words(
        """
        **/.devcontainer/ .devcontainer.json devfile.y*ml .devfile.y*ml .gitpod.* **/.codesandbox/ **/.stackblitz/
        .stackblitzrc .replit replit.nix **/.idx/ devbox.json devenv.*
        """
    ),
    "debuggers": _words(
        """
        .gdbinit .lldbinit* **/.gdb/ .pdbrc .pryrc .irbrc .pythonrc* .Rprofile .Renviron .ipython/ **/.ipython/
        **/.jupyter/ .ghci .utop* .ocamlinit .iex.exs .psqlrc .sqliterc .my.cnf
        """
    ),
    "CI": _words(
        """
        **/.github/workflows/ **/.github/actions/ **/.github/scripts/ **/.github/ .gitlab-ci* **/.gitlab/
        **/.gitlab-ci/ **/.circleci/ azure-pipelines* **/.azure-pipelines/ **/.azure/ **/.azuredevops/ **/.vsts-ci/
        .vsts-ci.y*ml Jenkinsfile* *.jenkinsfile **/.jenkins/ bitbucket-pipelines* .travis.y*ml **/.travis/
        **/.buildkite/ .drone.* **/.drone/ **/.forgejo/ **/.gitea/ .woodpecker.* **/.woodpecker/ **/.ci/ ci/
        .appveyor.y*ml appveyor.y*ml .cirrus.* **/.semaphore/ **/.teamcity/ wercker.y*ml codefresh*.y*ml
        **/.codefresh/ cloudbuild*.y*ml cloudbuild*.json buildspec*.y*ml appspec.y*ml .scrutinizer.y*ml
        codemagic.y*ml bitrise*.y*ml **/.tekton/ **/.argo/ **/.builds/ .build.y*ml .builds.y*ml .sr.ht/ **/.harness/
        **/.zuul*/ .zuul.y*ml zuul.y*ml earthfile dagger.json **/.dagger/ .sourcegraph/ .readthedocs.y*ml
        readthedocs.y*ml netlify.toml vercel.json now.json **/.vercel/ **/.netlify/ wrangler.* firebase.json
        render.y*ml fly.toml amplify.y*ml serverless.* samconfig.toml codecov.y*ml .codecov.y*ml
        sonar-project.properties .goreleaser.* .releaserc* release.config.* release-please-config.json mergify.y*ml
        .mergify.y*ml .mergify/
        .lando.y*ml **/.ddev/ **/.platform/ .platform.app.y*ml **/.ebextensions/ nixpacks.toml railway.json
        snapcraft.y*ml pipelines.y*ml codeowners owners shippable.y*ml tekton.y*ml buildspec*.json
        railway.toml **/.do/ app.json app.y*ml okteto.y*ml devspace.y*ml
        """
    ),
    "dependency bots": _words(
        """
        dependabot.y*ml renovate.json* .renovaterc* **/.renovate/ .pyup.y*ml .snyk .whitesource greenkeeper.json
        """
    ),
    "parley": _words(
        """
        parley.toml parley.*.toml .parley* **/.parley*/ **/.parley/
        """
    ),
    "coding agents": _words(
        """
        **/.claude/ .claude.json .clauderc .claude-plugin/ claude*.md agents*.md agent.md gemini*.md **/.gemini/
        **/.codex/ codex.md .mcp.json mcp.json mcp.*.json .mcp/ **/.mcp/ **/.cursor/ .cursorrules .cursorignore
        .cursorindexingignore copilot-instructions.md *.instructions.md *.prompt.md *.chatmode.md *.agent.md .aider*
        **/.aider*/ .windsurfrules **/.windsurf/ .clinerules **/.clinerules/ .roorules* **/.roo/ .roomodes
        **/.continue/ .continuerc.json .continuerules **/.amazonq/ **/.kiro/ **/.junie/ .goosehints **/.goose/
        opencode.json* **/.opencode/ **/.crush/ crush.json .crush.json crush.md **/.qwen/ qwen.md **/.trae/
        **/.augment/ .augment-guidelines warp.md **/.agents/ **/.agent/ **/.ai/ skill.md **/.skills/ llms*.txt
        **/.devin/ **/.factory/ **/.zencoder/ .kilocode* **/.kilocode/ **/.openhands/ .openhands_instructions
        **/.tabnine/ .sourcery.y*ml .coderabbit.y*ml **/.codeium/ replit.md
        .rules **/.claude-plugin/ **/.cline/ **/.cody/ **/.copilot/ **/.aiassistant/ **/.specify/ **/.plandex/
        mcp_config.json claude_desktop_config.json amp.md grok.md
        sweep.y*ml .sweep.y*ml .pr_agent.toml **/.void/ **/.antigravity/
        """
    ),
    "package managers": _words(
        """
        package.json package.json5 package.y*ml package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.y*ml
        bun.lock* .npmrc .yarnrc* **/.yarn/ .pnpmfile.* pnpm-workspace.y*ml .pnp.* bunfig.toml .bunfig.toml
        deno.json* deno.lock jsr.json lerna.json nx.json turbo.json* rush.json .bowerrc bower.json jspm.json
        volta.json composer.json composer.lock pyproject.toml setup.py setup.cfg pdm.toml poetry.toml poetry.lock
        uv.toml uv.lock pdm.lock pixi.toml pixi.lock hatch.toml hatch_build.py *build_backend*.py pip.conf pip.ini
        .pypirc requirements*.txt requirements*.in constraints*.txt pipfile* environment*.y*ml conda*.y*ml meta.yaml
        .condarc manifest.in gemfile* gems.rb gems.locked *.gemspec .gemrc **/.bundle/ podfile* *.podspec* cartfile*
        package.swift package.resolved cargo.toml cargo.lock **/.cargo/ build.rs go.mod go.sum go.work* mix.exs
        mix.lock rebar.config* rebar.lock *.cabal cabal.project* stack.y*ml* dune-project pubspec.* project.clj
        deps.edn build.sbt **/project/*.sbt **/project/*.scala .sbtopts .jvmopts build.sc *.nuspec nuget.config
        packages.config directory.build.* directory.packages.props global.json *.csproj *.fsproj *.vbproj *.vcxproj*
        *.sln *.targets paket.* vcpkg*.json conanfile.* elm.json spago.* shard.y*ml renv.lock cpanfile* makefile.pl
        build.pl dist.ini gleam.toml build.zig*
        *.rockspec *.nimble nim.cfg *.nims *.opam esy.json setup.hs bb.edn shadow-cljs.edn profiles.clj build.boot
        pylock*.toml *requirements*.txt **/requirements/*.txt **/requirements/*.in buildout.cfg versioneer.py
        setup.lhs project.json workspace.json component.json import_map.json foundry.toml anchor.toml haxelib.json
        *.sbt jbang-catalog.json melos.y*ml .fvmrc project.toml manifest.toml description .pdm-python .pdm.toml
        """
    ),
    "build tools": _words(
        """
        makefile makefile.* gnumakefile *.mk *.mak *.make bsdmakefile cmakelists.txt *.cmake cmakepresets.json
        cmakeuserpresets.json meson.build meson_options.txt meson.options configure configure.ac autogen.sh
        bootstrap.sh justfile .justfile *.just taskfile*.y*ml .taskfile*.y*ml rakefile* *.rake guardfile capfile
        thorfile dangerfile* fastfile **/fastlane/ brewfile* sconstruct sconscript* wscript tup*file* *.ninja
        build.gradle* settings.gradle* init.gradle* *.gradle *.gradle.kts gradle.properties gradlew* **/gradle/
        **/.gradle/ **/buildsrc/ pom.xml mvnw* **/.mvn/ build.xml ivy*.xml ant.properties build.bazel build
        workspace module.bazel* .bazelrc *.bazelrc .bazelversion .bazeliskrc *.bzl buck .buckconfig* please.build
        .plzconfig* pants.toml build.pants gruntfile* gulpfile* webpack*.js webpack*.ts webpack*.cjs webpack*.mjs
        *.config.js *.config.ts *.config.cjs *.config.mjs *.config.mts *.config.cts .eslintrc* eslint.config.*
        .prettierrc* .stylelintrc* .babelrc* babel.config.* .swcrc .postcssrc* .mocharc* .nycrc* .jestrc*
        jest.config.* karma.conf.* cypress.json tsconfig*.json jsconfig.json angular.json metro.config.*
        next.config.* nuxt.config.* tasks.py fabfile* invoke.y*ml noxfile.py tox.ini .toxrc dodo.py snakefile
        nextflow.config dvc.yaml doit.cfg shakefile* build.cake build.fsx build.ps1 psakefile.ps1 premake*.lua
        xmake.lua skaffold.y*ml tiltfile garden.y*ml werf.y*ml magefile.go **/magefiles/ build.sh install.sh
        setup.sh run.sh workspace.bazel build.zig
        *.conf.js *.conf.ts *.config.json nodemon.json .nodemonrc ecosystem.json .luacheckrc .busted *.exs *.gn *.gni
        cakefile jakefile* *.m4 *.am *.pro *.pri *.qbs *.proj *.props dune dune-workspace ember-cli-build.js
        brocfile.js testem.js .ember-cli **/.storybook/ **/.vitepress/ mkdocs.y*ml conf.py _config.yml **/_plugins/
        **/debian/ pkgbuild apkbuild *.install *.spec configure.win cleanup cleanup.win lakefile.* build.mill moon.y*ml
        **/tasks/__init__.py **/fabfile/ **/noxfile/ mintfile truffle-config.* brownie-config.y*ml ape-config.y*ml
        dbt_project.yml airflow.cfg local.properties rebar3 mage.go esbuild.* *.hxml build.js build.mjs build.ts
        build.yaml bake.hcl
        manage.py pavement.py config.ru rector.php artisan _targets.r deps/build.jl
        """
    ),
    "python at its start": _words(
        """
        sitecustomize.py usercustomize.py *.pth *.egg-link **/__editable__* pyvenv.cfg
        """
    ),
    "test runners and linters": _words(
        """
        conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml .coveragerc mypy.ini .mypy.ini .flake8 .pylintrc
        pylintrc .ruff.toml ruff.toml .isort.cfg .bandit* .pydocstyle* unittest.cfg nose.cfg .noserc .rspec
        .rubocop*.y*ml spec_helper.rb rails_helper.rb test_helper.* phpunit.xml* .php-cs-fixer* phpstan*.neon*
        psalm.xml* .phpcs.xml* .golangci.* .clang-tidy .clang-format .swiftlint.y*ml rustfmt.toml .rustfmt.toml
        clippy.toml .clippy.toml **/.config/nextest.toml .scalafmt.conf detekt.y*ml checkstyle*.xml .shellcheckrc
        .hadolint.y*ml .yamllint* .markdownlint* .ansible-lint* trunk.y*ml **/.trunk/ .mega-linter.y*ml .semgrep*
        **/.semgrep/ biome.json* dprint.json oxlintrc.json .oxlintrc.json ava.config.* wdio.conf.*
        playwright.config.* jest.setup.* behave.ini **/features/environment.py robot.toml karate-config.js
        .proverc .perlcriticrc .perltidyrc .tflint.hcl .checkov.y*ml .detoxrc* .taprc .gitlint .pyre_configuration
        steepfile vitest.workspace.* cucumber.js cucumber.y*ml nightwatch.json testcafe.json tslint.json doctest.cfg
        """
    ),
    "containers": _words(
        """
        dockerfile* *.dockerfile containerfile* *.containerfile docker-compose* compose*.y*ml docker-bake.*
        docker-entrypoint* entrypoint.sh **/.docker/ podman-compose* kustomization.y*ml chart.y*ml helmfile*.y*ml
        """
    ),
    "machines and services": _words(
        """
        flake.nix flake.lock shell.nix default.nix *.nix guix.scm manifest.scm channels.scm .guix-authorizations
        vagrantfile* *.pkr.hcl packer*.json .terraformrc terraform.rc terragrunt.hcl pulumi*.y*ml cdk.json
        ansible.cfg **/roles/*/tasks/ puppetfile berksfile *.service *.socket *.timer *.mount *.automount *.desktop
        crontab* *.cron **/cron.d/ **/cron.daily/ **/cron.hourly/ **/cron.weekly/ procfile* **/.procfile*
        supervisord*.conf **/udev/ **/systemd/ **/init.d/ **/sudoers.d/ sudoers **/profile.d/ **/.ssh/
        authorized_keys* ssh_config sshd_config .netrc _netrc .curlrc _curlrc .wgetrc .gnupg/ **/.gnupg/ gpg.conf
        **/.aws/ **/.kube/ kubeconfig* **/.config/ **/.local/ ld.so.preload .htaccess .user.ini php.ini web.config
        gunicorn.conf.py gunicorn_conf.py uwsgi.ini *.tf *.tf.json *.tfvars *.path *.slice jupyter_*config.py
        """
    ),
    "other version control": _words(
        """
        **/.hg/ .hgrc .hgsub **/.jj/ **/.sl/ **/.svn/ **/.bzr/ **/_darcs/ **/.pijul/ **/.fossil-settings/ **/CVS/
        """
    ),
    "file managers": _words(
        """
        desktop.ini autorun.inf *.lnk *.url *.scf *.command .directory **/*.app/ **/*.workflow/ *.bat *.cmd *.ps1 *.vbs
        *.hta *.reg *.scpt *.inf *.msi *.exe *.scr
        """
    ),
    "git, where a folder is a repository by itself": _words(
        """
        HEAD config config.worktree commondir
        """
    ),
    # No list is complete. Files that tools find by themselves are mostly hidden, so all hidden names are reported.
    "a tool that looks for this hidden name": _words(
        """
        .* **/.*/
        """
    ),
}
# Hidden names that only list ignored files or keep a folder: no tool runs or obeys them.
_HARMLESS = re.compile(r"\.(git)?keep|\.gitempty|\.placeholder|\.nojekyll|\.[a-z]*ignore|\.ds_store")


_BY_MODE = ("a new program", "a program", "a link: what is written to it, or read, lies elsewhere")
_HERE = "here"


def obeyed(modes: Mapping[str, tuple[str, str]], named: Mapping[str, str] | None = None) -> tuple[Obeyed, ...]:
    """The changed paths that are run or obeyed, in order.

    `modes`: each path with its mode before and after, empty where there is none. `named`: further paths that are
    obeyed on this machine, each with the reason.
    """
    found = []
    for path in sorted(modes):
        by = (named or {}).get(path) or by_name(path) or _by_mode(*modes[path])
        if by:
            found.append(Obeyed(path, by))
    return tuple(found)


def foremost(found: Sequence[Obeyed], most: int) -> list[Obeyed]:
    """The first `most` of these, chosen so that many of one kind hide none of another.

    Kinds take turns: first what is obeyed for a reason of this machine's, then in the table's order, then programs
    and links.
    """
    if len(found) <= most:
        return list(found)
    kinds: dict[str, list[Obeyed]] = {by: [] for by in (_HERE, *TABLE)}
    for one in found:
        kinds.setdefault(one.by if one.by in TABLE or one.by in _BY_MODE else _HERE, []).append(one)
    turns = itertools.zip_longest(*kinds.values())
    return [one for turn in turns for one in turn if one is not None][:most]


def by_name(path: str) -> str:
    """The tool that runs or obeys a file of this name; empty where none is known."""
    folder, slash, name = "/".join(_plain(part) for part in re.split(r"[/\\]", path)).rpartition("/")
    plain = f"{folder}{slash}{'' if _HARMLESS.fullmatch(name) else name}"
    for by, pattern in _patterns():
        if pattern.match(plain):
            return by
    return ""


def _by_mode(before: str, after: str) -> str:
    """The kind of a file by its mode alone: a program, or a link."""
    if after == PROGRAM:
        return _BY_MODE[1] if before == PROGRAM else _BY_MODE[0]
    return _BY_MODE[2] if after == LINK else ""


def _plain(part: str) -> str:
    """A name as the least exact filesystem reads it."""
    plain = part.lower() if part.isascii() else unicodedata.normalize("NFKC", folded(part)).casefold()
    return plain.partition(":")[0].rstrip(". ") or part


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    made = []
    for by, patterns in TABLE.items():
        made.append(
            (by, re.compile("|".join(f"(?:{_expression(pattern.casefold())})" for pattern in patterns), re.DOTALL))
        )
    return tuple(made)


def _expression(pattern: str) -> str:
    """A pattern as a regular expression, for a whole path."""
    folder = pattern.endswith("/")
    bare = pattern.rstrip("/").removeprefix(EVERYWHERE)
    anchored = not pattern.startswith(EVERYWHERE) and ("/" in bare or folder)
    inner = "/".join("".join("[^/]*" if char == "*" else re.escape(char) for char in part) for part in bare.split("/"))
    return f"{'' if anchored else '(?:.*/)?'}{inner}{'(?:/.*)?' if folder else ''}\\Z"
