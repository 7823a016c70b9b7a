"""The task routes as a caller sees them: create, read, list, cancel, evidence, keys (I15)."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from aegis.domain.errors import StoreUnavailable
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.use_cases.create_task import CreateTask
from aegis.use_cases.use_cases import UseCases
from tests.contracts.stores.stores_under_test import AGENT
from tests.integration.web.web_under_test import ALICE, BOB, BODY, Web

KEY = {"Idempotency-Key": "one"}


@pytest.fixture(params=["memory", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "aegis.db"


async def test_create_answers_202_with_the_pending_task_and_where_it_is(web: Web):
    async with web.client() as client:
        created = await client.post("/api/v1/tasks", json=BODY)
        read = await client.get(created.headers["location"])

    assert created.status_code == 202
    task = created.json()
    assert created.headers["location"] == f"/api/v1/tasks/{task['id']}"
    assert (task["state"], task["last_seq"], task["steps"]) == ("PENDING", 1, [])
    assert (task["agent"], task["prompt"]) == (BODY["agent"], BODY["prompt"])
    assert (task["reason_code"], task["output"], task["finished_at"]) == (None, None, None)
    assert task["created_at"] == "2023-11-14T22:13:20.000000Z"
    assert task["limits"]["running_seconds_max"] == AGENT.limits.running_micros_max / 1_000_000
    assert read.json() == task


async def test_a_finished_task_shows_steps_calls_evidence_and_answer(web: Web):
    task_id, evidence_id = await web.observed()

    async with web.client() as client:
        task = (await client.get(f"/api/v1/tasks/{task_id}")).json()
        listed = (await client.get(f"/api/v1/tasks/{task_id}/evidence")).json()["evidence"]
        single = (await client.get(f"/api/v1/evidence/{evidence_id}")).json()

    assert task["state"] == "SUCCEEDED"
    assert task["output"]["summary"] == "The release broke it."
    assert task["evidence_ids"] == [evidence_id]
    ((call,),) = [step["calls"] for step in task["steps"]]
    assert (call["state"], call["evidence_id"]) == ("SUCCEEDED", evidence_id)
    assert listed == [single]
    assert (single["task_id"], single["trust"], single["synthetic"]) == (task_id, "measured", True)


async def test_lists_page_newest_first_without_a_gap_or_a_double(web: Web):
    made = [await web.created() for _ in range(5)]
    seen: list[str] = []
    cursor = ""

    async with web.client() as client:
        while True:
            page = (await client.get(f"/api/v1/tasks?limit=2{cursor}")).json()
            seen += [task["id"] for task in page["tasks"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"

    assert seen == made[::-1]


async def test_lists_filter_by_state_and_agent(web: Web):
    done, _ = await web.observed()
    waiting = await web.created()

    async with web.client() as client:

        async def listed(query: str) -> list[str]:
            page = (await client.get(f"/api/v1/tasks?{query}")).json()
            return [task["id"] for task in page["tasks"]]

        assert await listed("state=SUCCEEDED") == [done]
        assert await listed("state=PENDING") == [waiting]
        assert await listed("state=FAILED") == []
        assert await listed("agent=other") == []
        assert await listed(f"agent={AGENT.name}") == [waiting, done]


async def test_cancel_tells_who_won_and_is_idempotent(web: Web):
    task_id = await web.created()

    async with web.client() as client:
        first = await client.post(f"/api/v1/tasks/{task_id}/cancel")
        second = await client.post(f"/api/v1/tasks/{task_id}/cancel")

    assert (first.json()["cancel"], second.json()["cancel"]) == ("cancelled", "already_terminal")
    assert first.json()["task"]["state"] == "CANCELLED"
    assert second.json()["task"] == first.json()["task"]
    assert web.signalled == [task_id]


async def test_cancel_names_the_writes_whose_outcome_nobody_knows(web: Web):
    claim, _ = await web.world.started()
    cancel = f"/api/v1/tasks/{claim.task_id}/cancel"
    owner = (await web.store.load(claim)).task.principal

    async with web.client(app=web.remade(identity=AlwaysThis(owner))) as client:
        answer = (await client.post(cancel)).json()

    assert answer["calls_in_doubt"] == ["1.1"]


class AlwaysThis:
    """`Identity` of one principal."""

    def __init__(self, principal: Principal) -> None:
        self._principal = structs.replace(principal, roles=("operator",))

    async def authenticate(self, bearer_token: str | None) -> Principal:
        return self._principal


async def test_i15_the_same_key_and_body_give_the_same_bytes_also_after_the_end(web: Web):
    async with web.client() as client:
        first = await client.post("/api/v1/tasks", json=BODY, headers=KEY)
        await client.post(f"{first.headers['location']}/cancel")
        again = await client.post(
            "/api/v1/tasks",
            content=msgspec.json.encode(dict(reversed(BODY.items()))),
            headers={**KEY, "Content-Type": "application/json"},
        )

    assert (first.status_code, again.status_code) == (202, 202)
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]


async def test_i15_a_replay_is_the_same_although_the_agent_was_declared_anew(web: Web):
    changed = structs.replace(AGENT, limits=structs.replace(AGENT.limits, steps_max=99))
    async with web.client() as client:
        first = await client.post("/api/v1/tasks", json=BODY, headers=KEY)

    async with web.client(app=web.remade(agents={AGENT.name: changed})) as client:
        again = await client.post("/api/v1/tasks", json=BODY, headers=KEY)

    assert again.content == first.content


async def test_i15_the_same_key_with_another_body_is_422(web: Web):
    async with web.client() as client:
        await client.post("/api/v1/tasks", json=BODY, headers=KEY)
        other = await client.post("/api/v1/tasks", json={**BODY, "prompt": "Else?"}, headers=KEY)

    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert sum((await web.store.counts()).by_state.values()) == 1


async def test_i15_another_principals_key_is_another_key(web: Web):
    async with web.client(ALICE) as alice, web.client(BOB) as bob:
        mine = await alice.post("/api/v1/tasks", json=BODY, headers=KEY)
        theirs = await bob.post("/api/v1/tasks", json={**BODY, "prompt": "Else?"}, headers=KEY)

    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.json()["id"] != theirs.json()["id"]


async def test_i15_twenty_at_once_make_one_task(web: Web):
    async with web.client() as client:
        answers = await asyncio.gather(
            *(client.post("/api/v1/tasks", json=BODY, headers=KEY) for _ in range(20))
        )

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert sum((await web.store.counts()).by_state.values()) == 1


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_of_a_wrong_length_is_422(web: Web, key: str):
    async with web.client() as client:
        response = await client.post("/api/v1/tasks", json=BODY, headers={"Idempotency-Key": key})

    assert (response.status_code, response.json()["code"]) == (422, "INVALID_REQUEST")


async def test_a_full_queue_is_503_and_says_when_to_come_back():
    web = Web(ServerLimits(pending_max=1))
    await web.created()

    async with web.client() as client:
        full = await client.post("/api/v1/tasks", json=BODY)

    assert (full.status_code, full.json()["code"]) == (503, "QUEUE_FULL")
    assert int(full.headers["retry-after"]) > 0


async def test_full_storage_is_503_with_a_code_of_its_own():
    web = Web(ServerLimits(stored_max=1))
    await web.created()

    async with web.client() as client:
        full = await client.post("/api/v1/tasks", json=BODY)

    assert (full.status_code, full.json()["code"]) == (503, "CAPACITY_EXHAUSTED")
    assert int(full.headers["retry-after"]) > 0


async def test_a_store_that_does_not_answer_is_503_with_retry_after(web: Web):
    async def unavailable(_command: CreateTask) -> object:
        raise StoreUnavailable("the store did not commit")

    use_cases = UseCases(create_task=unavailable, cancel_task=web.parts.use_cases.cancel_task)  # pyright: ignore[reportArgumentType] - it never returns
    async with web.client(app=web.remade(use_cases=use_cases)) as client:
        response = await client.post("/api/v1/tasks", json=BODY)

    assert (response.status_code, response.json()["code"]) == (503, "UNAVAILABLE")
    assert int(response.headers["retry-after"]) > 0


async def test_what_retention_pruned_is_410_for_its_owner():
    web = Web(ServerLimits(stored_max=1))
    pruned, _ = await web.observed()
    await web.created()

    async with web.client() as client:
        answers = [
            await client.get(f"/api/v1/tasks/{pruned}"),
            await client.get(f"/api/v1/tasks/{pruned}/events"),
            await client.get(f"/api/v1/tasks/{pruned}/evidence"),
            await client.post(f"/api/v1/tasks/{pruned}/cancel"),
        ]
    async with web.client(BOB) as client:
        foreign = await client.get(f"/api/v1/tasks/{pruned}")

    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [
        (410, "GONE")
    ] * 4
    assert foreign.status_code == 404
