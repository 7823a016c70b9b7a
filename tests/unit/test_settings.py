"""Settings: what the environment and `aegis.toml` become, and how every mistake is named.

Proved: unknown keys at any depth, wrong types and bounds are refused by the full name of the key;
secrets never enter an error or what is shown; what ships with Aegis loads cleanly.
"""

import json
from importlib import resources

import pytest

from aegis.bootstrap.declared import built_in_configuration, declared
from aegis.bootstrap.models import build_models
from aegis.domain.errors import ConfigurationError
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.settings import agent_spec, describe, load_settings

SECRET = "hunter2-secret"


def load(folder, text=None, **environ):
    if text is not None:
        (folder / "aegis.toml").write_text(text, encoding="utf-8")
    return load_settings(environ, folder)


def refused(folder, text=None, **environ) -> str:
    with pytest.raises(ConfigurationError) as error:
        load(folder, text, **environ)
    assert str(folder) not in str(error.value)
    return str(error.value)


def test_without_anything_the_demo_profile_stands(tmp_path):
    settings = load(tmp_path)
    assert settings.database == tmp_path / ".aegis" / "aegis.db"
    assert settings.file is None
    assert settings.demo_token is None
    assert settings.limits.lease_micros == 3 * MICROS_PER_SECOND
    assert (settings.limits.pending_max, settings.limits.stored_max) == (32, 1000)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///a/b.db", "a/b.db"),
        ("sqlite:////abs/b.db", "/abs/b.db"),
        ("memory://", None),
    ],
)
def test_the_database_url(tmp_path, url, path):
    expected = None if path is None else tmp_path / path
    assert load(tmp_path, AEGIS_DATABASE_URL=url).database == expected
    stored = f'version = 1\n[store]\nurl = "{url}"'
    assert load(tmp_path, stored).database == expected


def test_the_environment_wins_over_the_file(tmp_path):
    text = 'version = 1\n[store]\nurl = "sqlite:///file.db"'
    assert load(tmp_path, text, AEGIS_DATABASE_URL="memory://").database is None


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "mysql"])
def test_another_database_is_refused_without_its_password(tmp_path, scheme):
    url = f"{scheme}://user:{SECRET}@host/db"
    for said in (
        refused(tmp_path, AEGIS_DATABASE_URL=url),
        refused(tmp_path, f'version = 1\n[store]\nurl = "{url}"'),
    ):
        assert SECRET not in said
        assert "sqlite:///PATH" in said
    assert "store.url" in said


def test_nats_is_not_in_this_release(tmp_path):
    assert "not in this release" in refused(tmp_path, AEGIS_NATS_URL="nats://127.0.0.1")


def test_home_and_configuration_can_lie_elsewhere(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine.toml").write_text("version = 1\n[server]\nport = 9\n")
    settings = load(tmp_path, AEGIS_CONFIG="conf/mine.toml", AEGIS_HOME="state")
    assert settings.configuration.server.port == 9
    assert settings.database == tmp_path / "state" / "aegis.db"
    assert "'gone.toml' cannot be read" in refused(tmp_path, AEGIS_CONFIG="gone.toml")


@pytest.mark.parametrize("word", ["true", "1", "YES"])
def test_demo_auth_needs_its_token(tmp_path, word):
    assert load(tmp_path, AEGIS_DEMO_AUTH=word, AEGIS_DEMO_TOKEN=SECRET).demo_token == SECRET
    assert "AEGIS_DEMO_TOKEN is empty" in refused(tmp_path, AEGIS_DEMO_AUTH=word)


def test_a_token_alone_turns_nothing_on(tmp_path):
    assert load(tmp_path, AEGIS_DEMO_TOKEN=SECRET).demo_token is None
    assert load(tmp_path, AEGIS_DEMO_AUTH="false", AEGIS_DEMO_TOKEN=SECRET).demo_token is None
    assert "true or false" in refused(tmp_path, AEGIS_DEMO_AUTH="ture", AEGIS_DEMO_TOKEN=SECRET)


AGENT = '[agents.a]\nmodel = "m"\ninstructions = "i"\n'
MISTAKES = [
    ("", "'version'|`version`|version"),
    ("version = 2", "'version' is not valid"),
    ("version = ", "is not TOML"),
    ("version = 1\nservers = 1", "unknown key 'servers'.*known here: version"),
    ("version = 1\n[server]\nprot = 1", "unknown key 'server.prot'"),
    ("version = 1\n[server]\nport = 70000", "'server.port' is not valid: Expected int <= 65535"),
    ('version = 1\n[server]\nport = "80"', "'server.port' is not valid: Expected int, got str"),
    ("version = 1\n[server]\nconcurrency = 0", "server.concurrency"),
    ("version = 1\n[limits]\npending_max = 0", "limits.pending_max"),
    ("version = 1\n[limits]\nage_seconds_max = inf", "limits.age_seconds_max"),
    ("version = 1\n[limits]\ndrain_seconds = nan", "limits.drain_seconds"),
    ("version = 1\n[limits]\nlease_seconds = 1.0", "renew_seconds must be below"),
    ('version = 1\n[store]\nsynchronous = "OFF"', "store.synchronous"),
    ("version = 1\n[agents.a]\n", "'agents.a' is not valid: Object missing required field model"),
    (f"version = 1\n{AGENT}modle = 1", "unknown key 'agents.a.modle'.*known here: model"),
    (f"version = 1\n{AGENT}limits = {{ step = 1 }}", "unknown key 'agents.a.limits.step'"),
    (f"version = 1\n{AGENT}limits = {{ steps_max = 0 }}", "agents.a.limits.steps_max"),
    (f"version = 1\n{AGENT}limits = {{ running_seconds_max = -1.0 }}", "running_seconds_max"),
    (f'version = 1\n{AGENT}citations = "maybe"', "agents.a.citations"),
    ('version = 1\n[agents."a b"]\nmodel = "m"\ninstructions = "i"', "'a b' cannot name"),
    ("version = 1\n[agents]\na = 1", "agents.a"),
    ('version = 1\n[models.m]\nkind = "oracle"', "models.m.kind"),
    ('version = 1\n[models.m]\nkind = "scripted"', "exactly one of 'script' and 'steps'"),
    ('version = 1\n[models.m]\nkind = "scripted"\nscript = "s.toml"', "'s.toml' of models.m"),
    ('version = 1\n[tools.t]\nkind = "python"', "needs 'function' and no 'backend'"),
    ('version = 1\n[tools.t]\nkind = "logs"\nfunction = "a:b"', "needs 'backend'"),
    ('version = 1\n[backends.b]\nkind = "records"', "exactly one of 'url' and 'url_env'"),
    ('version = 1\n[backends.b]\nkind = "records"\nurl = "u"\nurl_env = "U"', "exactly one of"),
    (
        'version = 1\n[backends.b]\nkind = "records"\nurl = "u"\nqueries = { q = { unit = "1" } }',
        "backends.b",
    ),
    ('version = 1\n[[policy.allow]]\nrole = ""\ntools = []', "policy.allow.*role"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_a_mistake_in_the_file_is_named(tmp_path, text, words):
    said = refused(tmp_path, text)
    with pytest.raises(ConfigurationError, match=words):
        raise ConfigurationError(said)
    assert "'aegis.toml'" in said


def test_a_secret_where_a_variables_name_belongs_is_not_repeated(tmp_path):
    text = f'version = 1\n[backends.b]\nkind = "records"\nurl = "u"\ntoken_env = "{SECRET}"'
    said = refused(tmp_path, text)
    assert "token_env of backends.b" in said
    assert SECRET not in said


SCRIPTED = 'version = 1\n[models.m]\nkind = "scripted"\nscript = "s.toml"'


def test_a_script_may_stand_in_a_file_of_its_own(tmp_path):
    (tmp_path / "s.toml").write_text('repeat_last = true\n[[steps]]\ntext = "hello"\n')
    model = load(tmp_path, SCRIPTED).configuration.models["m"]
    assert (model.steps, model.repeat_last, model.script) == ([{"text": "hello"}], True, None)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("stepps = []", "'s.toml': unknown key 'stepps'"),
        ("repeat_last = true", "needs 'steps'"),
        ('script = "t.toml"', "needs 'steps', and no 'script'"),
        ("steps = 1", "'s.toml': key 'steps'"),
        ("steps = ", "cannot be read as TOML"),
    ],
)
def test_a_mistake_in_a_script_file_is_named(tmp_path, script, words):
    (tmp_path / "s.toml").write_text(script)
    assert words in refused(tmp_path, SCRIPTED)


def test_what_is_shown_holds_no_secret_and_no_address(tmp_path):
    text = (
        f'version = 1\n[backends.b]\nkind = "records"\nurl = "http://{SECRET}"\n'
        f'[models.m]\nkind = "scripted"\nsteps = [{{ text = "{SECRET}" }}]\n'
        f'[agents.a]\nmodel = "m"\ninstructions = "{SECRET}"\n'
    )
    settings = load(tmp_path, text, AEGIS_DEMO_AUTH="true", AEGIS_DEMO_TOKEN=SECRET)
    shown = json.dumps(describe(settings))
    assert SECRET not in shown
    assert str(tmp_path) not in shown
    assert json.loads(shown)["demo_auth"] is True
    assert json.loads(shown)["backends"] == {"b": "records"}


def test_the_file_that_init_writes_loads_and_its_script_too(tmp_path):
    templates = resources.files("aegis.bootstrap").joinpath("templates")
    settings = load(tmp_path, templates.joinpath("aegis.toml").read_text(encoding="utf-8"))
    assert settings.configuration.default_agent in settings.configuration.agents
    build_models(declared(settings))


def test_the_agents_that_ship_are_those_of_the_design(tmp_path):
    everything = declared(load(tmp_path))
    build_models(everything)
    ops = everything.agents["ops-diagnosis"].limits
    assert (ops.steps_max, ops.tool_calls_max) == (12, 12)
    assert [
        value // MICROS_PER_SECOND
        for value in (ops.running_micros_max, ops.model_call_micros_max, ops.tool_call_micros_max)
    ] == [300, 60, 10]
    normal = everything.agents["fault-normal"].limits
    assert (normal.steps_max, normal.tool_calls_max) == (6, 4)
    assert normal.running_micros_max == 5 * MICROS_PER_SECOND
    assert normal.model_call_micros_max == normal.tool_call_micros_max == MICROS_PER_SECOND
    experiments = [
        *("normal", "tool-error", "repeat", "steps", "tool-budget", "model-timeout"),
        *("tool-timeout", "task-timeout", "slow", "rollback-denied", "bad-evidence"),
    ]
    assert {f"fault-{name}" for name in experiments} <= set(everything.agents)
    assert not any("simulated_rollback" in rule.tools for rule in everything.rules)


def test_every_agent_that_ships_names_a_model_that_ships():
    shipped = built_in_configuration()
    for name, section in shipped.agents.items():
        assert agent_spec(name, section).model in shipped.models, name
