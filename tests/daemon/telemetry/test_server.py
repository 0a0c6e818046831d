"""Server samples from recorded bodies, and from servers that miss endpoints, hang, or are not there."""

from __future__ import annotations

from contracts.records import ServerReading
from daemon.servers.info import ServerControl
from daemon.servers.standing import Standing
from daemon.telemetry.server import ASK_AGAIN_S, IDENTITY_S, ServerCollector
from tests.daemon.servers.scripted_server import (
    HANG,
    HTML,
    NOT_FOUND,
    Answer,
    as_json,
    closed_port,
    recorded,
    serving,
)

LOADED = {
    "loads": [
        {
            "num_running_reqs": 3,
            "num_waiting_reqs": 1,
            "token_usage": 0.25,
            "gen_throughput": 100.5,
            "cache_hit_rate": 0.5,
            "queues": {"retracted": 1},
        },
        {
            "num_running_reqs": 4,
            "num_waiting_reqs": 0,
            "token_usage": 0.75,
            "gen_throughput": 99.5,
            "cache_hit_rate": 0.0,
            "queues": {"retracted": 0},
        },
    ],
    "version": "0.5.23",
}
METRICS = b"""sglang:num_running_reqs{dp_rank="0"} 9.0
sglang:num_queue_reqs{dp_rank="0"} 8.0
sglang:token_usage{dp_rank="0"} 0.5
sglang:gen_throughput{dp_rank="0"} 70.0
sglang:cache_hit_rate{dp_rank="0"} 0.25
sglang:num_retracted_reqs{dp_rank="0"} 2.0
"""


def collector(*urls: str, timeout_s: float = 5.0, patience_s: float = 20.0) -> ServerCollector:
    """Patient enough to see every answer."""
    controls = [ServerControl(url, timeout_s=timeout_s) for url in urls]
    return ServerCollector(controls, lambda url: Standing(7, 3.04, 2.96), patience_s=patience_s)


def one(servers: ServerCollector, at: float = 0.0) -> ServerReading:
    sample = servers.sample(at)
    assert sample.at == at
    (reading,) = sample.servers
    return reading


def test_all_from_loads_over_dp_ranks_and_metrics_are_not_asked() -> None:
    with serving({"/v1/loads": as_json(LOADED), "/model_info": recorded("A_model_info")}) as server:
        servers = collector(server.url)
        expected = ServerReading(
            url=server.url,
            state="ok",
            version="0.5.23",
            model="model_llama_f32",
            running=7,
            queued=1,
            kv_usage_pct=50.0,
            tokens_per_s=200.0,
            cache_hit_pct=25.0,
            retracted=1,
            outstanding=7,
            last_answer_s=3.0,
            silent_s=3.0,
        )
        assert one(servers) == expected
        assert one(servers, 1.0) == expected
        assert server.paths() == ["/v1/loads", "/model_info", "/v1/loads"]


def test_recorded_bodies() -> None:
    with serving({"/v1/loads": recorded("A_v1_loads"), "/model_info": recorded("A_model_info")}) as server:
        reading = one(collector(server.url))
    assert (reading.state, reading.running, reading.kv_usage_pct, reading.retracted) == ("ok", 0, 0.0, 0)
    assert reading.version == "0.5.23"


def test_metrics_where_there_are_no_loads() -> None:
    answers = {"/metrics": Answer(body=METRICS), "/get_model_info": recorded("A_model_info")}
    with serving({**answers, "/get_server_info": as_json({"version": "0.4.6"})}) as server:
        servers = collector(server.url)
        reading = one(servers)
        assert (reading.running, reading.queued, reading.retracted) == (9, 8, 2)
        assert (reading.kv_usage_pct, reading.tokens_per_s, reading.cache_hit_pct) == (50.0, 70.0, 25.0)
        assert (reading.state, reading.reason, reading.version) == ("ok", None, "0.4.6")
        server.seen.clear()
        one(servers, 1.0)
        assert server.paths() == ["/metrics"]  # no 404 in that server's log every second
        one(servers, ASK_AGAIN_S)
        asked = [path for path in server.paths() if not path.endswith("_info")]  # who it is, it is asked again too
        assert asked == ["/metrics", "/v1/loads", "/metrics"]


def test_metrics_fill_only_what_loads_do_not_tell() -> None:
    rank = {"num_running_reqs": 3, "num_waiting_reqs": 1, "token_usage": 0.1}
    with serving({"/v1/loads": as_json({"loads": [rank]}), "/metrics": Answer(body=METRICS)}) as server:
        reading = one(collector(server.url))
    assert (reading.running, reading.queued, reading.kv_usage_pct) == (3, 1, 10.0)
    assert (reading.tokens_per_s, reading.retracted) == (70.0, 2)


def test_a_rank_that_does_not_tell_makes_the_sum_unknown_not_smaller() -> None:
    ranks = [{"num_running_reqs": 3}, {}]
    with serving({"/v1/loads": as_json({"loads": ranks})}) as server:
        reading = one(collector(server.url))
    assert (reading.state, reading.running, reading.kv_usage_pct) == ("ok", None, None)


def test_missing_endpoints_cost_their_values_only() -> None:
    with serving({"/model_info": recorded("A_model_info")}) as server:
        servers = collector(server.url)
        for at in (0.0, 1.0):
            reading = one(servers, at)
            assert (reading.state, reading.model, reading.outstanding) == ("ok", "model_llama_f32", 7)
            assert (reading.running, reading.queued, reading.tokens_per_s) == (None, None, None)


def test_a_web_page_on_every_path_is_no_sglang_server() -> None:
    paths = ("/v1/loads", "/metrics", "/model_info", "/get_model_info")
    with serving(dict.fromkeys(paths, HTML)) as server:
        reading = one(collector(server.url))
    assert reading.state == "unknown"
    assert reading.reason is not None
    assert "nginx" in reading.reason
    with serving({}) as server:
        reading = one(collector(server.url))
    assert (reading.state, reading.reason) == (
        "unknown",
        "none of SGLang's endpoints is there: is this an SGLang server?",
    )


def test_a_key_that_is_missing_is_said() -> None:
    answers = {"/v1/loads": recorded("K_noauth_v1_loads"), "/model_info": recorded("K_noauth_model_info")}
    with serving(answers) as server:
        reading = one(collector(server.url))
    assert reading.state == "unknown"
    assert reading.reason is not None
    assert "Unauthorized" in reading.reason


def test_down_and_back_with_another_model() -> None:
    port = closed_port()
    reading = one(collector(f"http://127.0.0.1:{port}"))
    assert (reading.state, reading.reason, reading.running, reading.outstanding) == (
        "down",
        "Connection refused",
        None,
        7,
    )
    answers = {"/v1/loads": as_json(LOADED), "/model_info": as_json({"served_model_name": "first"})}
    with serving(answers) as server:
        servers = collector(server.url)
        assert one(servers, 0.0).model == "first"
        url = server.url
    down = ServerReading(url=url, state="down", reason="Connection refused")
    down.outstanding, down.last_answer_s, down.silent_s = 7, 3.0, 3.0
    assert one(servers, 1.0) == down
    answers["/model_info"] = as_json({"served_model_name": "second"})
    with serving(answers, port=int(url.rpartition(":")[2])):
        assert one(servers, 2.0).model == "second"


def test_another_model_that_came_between_two_readings_is_told_after_a_while() -> None:
    answers = {"/v1/loads": as_json(LOADED), "/model_info": as_json({"served_model_name": "first"})}
    with serving(answers) as server:
        servers = collector(server.url)
        assert one(servers, 0.0).model == "first"
        server.answers["/model_info"] = as_json({"served_model_name": "second"})
        assert one(servers, IDENTITY_S - 1.0).model == "first", "a question less for every reading"
        assert one(servers, IDENTITY_S).model == "second"


def test_a_server_that_gets_no_work_is_not_ok_whatever_it_says() -> None:
    with serving({"/v1/loads": as_json(LOADED)}) as server:
        for state in ("refused", "starting", "unready"):
            standing = Standing(0, held=(state, "why"))
            servers = ServerCollector([ServerControl(server.url)], lambda url: standing, patience_s=20.0)  # noqa: B023
            reading = one(servers)
            assert (reading.state, reading.reason, reading.running) == (state, "why", 7)
    url = f"http://127.0.0.1:{closed_port()}"
    servers = ServerCollector([ServerControl(url)], lambda url: standing, patience_s=20.0)
    assert one(servers).state == "down"


def test_health_is_never_asked() -> None:
    """A false 503 in a long prefill, or a false 200 of a server that hangs, is no evidence (case 23)."""
    unhealthy = Answer(status=503)
    answers = {"/health": unhealthy, "/health_generate": unhealthy, "/v1/loads": as_json(LOADED)}
    with serving(answers) as server:
        assert one(collector(server.url)).state == "ok"
        assert not any("health" in path for path in server.paths())


def test_silent_loads_but_another_endpoint_answers_is_ok() -> None:
    with serving({"/v1/loads": HANG, "/metrics": NOT_FOUND, "/model_info": recorded("A_model_info")}) as server:
        reading = one(collector(server.url, timeout_s=0.1))
    assert (reading.state, reading.running, reading.model) == ("ok", None, "model_llama_f32")
    assert reading.reason == "took the connection, then no answer within 0.1 s: busy or hanging"


def test_silent_everywhere_is_unknown_not_down() -> None:
    with serving(dict.fromkeys(("/v1/loads", "/metrics", "/model_info"), HANG)) as server:
        reading = one(collector(server.url, timeout_s=0.05))
    assert reading.state == "unknown"
    assert reading.reason is not None
    assert "busy or hanging" in reading.reason


def test_a_hanging_server_does_not_hold_up_the_others() -> None:
    with serving({"/v1/loads": as_json(LOADED)}) as good, serving({"/v1/loads": as_json(LOADED)}) as bad:
        servers = collector(good.url, bad.url, timeout_s=20.0)
        assert [reading.state for reading in servers.sample(0.0).servers] == ["ok", "ok"]
        bad.answers["/v1/loads"] = HANG
        servers.patience_s = 0.5
        servers.sample(1.0)
        first = servers.sample(4.0).servers
        assert [(reading.url, reading.running) for reading in first] == [(good.url, 7), (bad.url, None)]
        assert (first[1].state, first[1].reason) == ("ok", "no answer yet, asked 3 s ago")
        late = servers.sample(11.0).servers
        assert [reading.state for reading in late] == ["ok", "unknown"]
        assert bad.paths().count("/v1/loads") == 2  # the call that hangs is the only one open
