"""Probes: public, at the root, and honest about a process that cannot do its work."""

from tests.integration.web.web_under_test import Web


async def test_liveness_says_only_that_the_process_answers(web: Web):
    web.health.ready = False

    async with web.client(None) as client:
        response = await client.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"alive": True})


async def test_readiness_follows_the_checks(web: Web):
    async with web.client(None) as client:
        ready = await client.get("/readyz")
        web.health.ready = False
        not_ready = await client.get("/readyz")

    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert (not_ready.status_code, not_ready.json()["checks"]) == (503, {"store": "unavailable"})
    assert int(not_ready.headers["retry-after"]) > 0


async def test_metrics_count_tasks_by_state_and_name_the_process(web: Web):
    await web.observed()
    await web.created()

    async with web.client(None) as client:
        response = await client.get("/metrics")

    assert response.headers["content-type"].startswith("text/plain")
    assert 'aegis_tasks{state="PENDING"} 1.0' in response.text
    assert 'aegis_tasks{state="SUCCEEDED"} 1.0' in response.text
    assert 'aegis_tasks{state="FAILED"} 0.0' in response.text
    assert "process_resident_memory_bytes" in response.text
    assert "developer" not in response.text


async def test_the_queue_shows_states_and_the_oldest_that_waits(web: Web):
    await web.created()
    web.clock.advance(5)
    await web.created()

    async with web.client() as client:
        queue = (await client.get("/api/v1/queue")).json()

    assert queue["by_state"] == {"PENDING": 2}
    assert queue["oldest_pending_at"] == "2023-11-14T22:13:20.000000Z"
    assert queue["oldest_expired_lease_at"] is None


async def test_what_the_framework_refuses_is_a_problem_too(web: Web):
    async with web.client() as client:
        missing = await client.get("/nowhere")
        slash = await client.get("/api/v1/tasks/")
        method = await client.delete("/api/v1/tasks")

    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert slash.status_code == 404
    assert (method.status_code, method.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert method.headers["allow"] == "GET, POST"
