"""Control calls: against bodies recorded from SGLang 0.5.23, and against servers that answer oddly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.servers.info import Health, ServerControl, ServerUnreachable, proxy_note
from daemon.servers.metrics import read_metrics
from tests.daemon.servers.scripted_server import (
    CAPTURES,
    EMPTY,
    HANG,
    HTML,
    NOT_FOUND,
    Answer,
    as_json,
    closed_port,
    recorded,
    serving,
)

CALLS = ("model_info", "server_info", "loads", "metrics")
PATHS = ("/model_info", "/get_model_info", "/server_info", "/get_server_info", "/v1/loads", "/metrics")


def test_recorded_bodies_of_the_real_server() -> None:
    answers = {
        "/model_info": recorded("A_model_info"),
        "/server_info": recorded("A_server_info"),
        "/v1/loads": recorded("A_v1_loads"),
        "/metrics": recorded("A_metrics"),
    }
    with serving(answers) as server:
        control = ServerControl(server.url + "/")
        model, info, loads, metrics = control.model_info(), control.server_info(), control.loads(), control.metrics()
    assert model is not None
    assert (model.model_path, model.architectures) == ("model_llama_f32", ["LlamaForCausalLM"])
    assert info is not None
    assert (info.version, info.max_req_input_len, info.max_total_num_tokens) == ("0.5.23", 2042, 16384)
    assert info.disable_radix_cache is False
    assert info.speculative_algorithm is None
    assert loads is not None
    assert loads.version == "0.5.23"
    assert [(load.num_running_reqs, load.token_usage, load.max_total_num_tokens) for load in loads.loads] == [
        (0, 0.0, 16384)
    ]
    assert metrics == {
        "running": 0.0,
        "queued": 0.0,
        "tokens_per_s": 0.0,
        "cache_hit": 0.0,
        "kv_usage": 0.0,
        "retracted": 0.0,
    }
    assert control.problems == []
    assert control.missing == frozenset()


def test_older_server_has_only_the_old_names() -> None:
    answers = {
        "/get_model_info": recorded("A_model_info"),
        "/get_server_info": as_json(
            {
                "server_args": {"model_path": "m", "tp_size": 8, "version": "older than the top"},
                "scheduler_info": {"max_total_num_tokens": 1000, "max_req_input_len": 900},
                "internal_states": [{"random_seed": 7, "tp_size": 1}],
                "max_total_num_tokens": None,
                "version": "0.4.6",
            }
        ),
        "/get_load": recorded("A_get_load"),
    }
    with serving(answers) as server:
        control = ServerControl(server.url)
        model, info = control.model_info(), control.server_info()
        assert control.loads() is None
        assert control.metrics() is None
    assert model is not None
    assert model.model_type == "llama"
    assert info is not None
    assert (info.version, info.tp_size, info.random_seed) == ("0.4.6", 8, 7)
    assert (info.max_total_num_tokens, info.max_req_input_len) == (1000, 900)
    assert control.problems == []
    assert control.missing == {"/v1/loads", "/metrics"}


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (HTML, "nginx"),
        (EMPTY, "empty body"),
        (Answer(body=b"[1, 2]"), "no JSON object"),
        (Answer(body=b'{"version": "\xff'), "no JSON"),
        (Answer(status=500, body=b"Internal Server Error", content_type="text/plain"), "HTTP 500"),
        (Answer(status=302, body=b""), "HTTP 302"),
        (Answer(body=b'{"loads": [', declared_length=500), "unreadable answer"),
    ],
    ids=["html", "empty", "array", "not-utf8", "500", "redirect", "truncated"],
)
def test_odd_answers_cost_the_value_and_are_named(answer: Answer, word: str) -> None:
    with serving(dict.fromkeys(PATHS, answer)) as server:
        control = ServerControl(server.url)
        for call in ("model_info", "server_info", "loads"):
            assert getattr(control, call)() is None
        assert len(control.problems) == 5
        for problem in control.problems:
            assert word in problem
            assert problem.startswith(server.url)
        server.answers["/v1/loads"] = recorded("A_v1_loads")
        assert control.loads() is not None
        assert not any("/v1/loads" in problem for problem in control.problems)


def test_a_page_instead_of_metrics_is_a_problem_not_zeros() -> None:
    with serving({"/metrics": HTML}) as server:
        control = ServerControl(server.url)
        assert control.metrics() is None
        assert "none of SGLang's values" in control.problems[0]


def test_everything_missing_is_none_without_problems() -> None:
    with serving({}) as server:
        control = ServerControl(server.url)
        assert [getattr(control, call)() for call in CALLS] == [None] * 4
        assert control.problems == []
        assert control.missing == {*PATHS}
        server.answers["/metrics"] = recorded("A_metrics")
        assert control.metrics() is not None
        assert "/metrics" not in control.missing


def test_without_its_key_a_server_says_unauthorized_and_the_key_is_sent_when_given() -> None:
    answers = {
        "/model_info": recorded("K_noauth_model_info"),
        "/server_info": recorded("K_noauth_server_info"),
        "/v1/loads": recorded("K_noauth_v1_loads"),
        "/metrics": recorded("K_noauth_metrics"),
    }
    with serving(answers) as server:
        control = ServerControl(server.url)
        assert [getattr(control, call)() for call in CALLS] == [None] * 4
        assert len(control.problems) == 3
        for problem in control.problems:
            assert "HTTP 401 (Unauthorized): give the server's api_key" in problem
        assert "Authorization" not in server.headers[-1]
        ServerControl(server.url, api_key="s3cret").metrics()
        assert server.headers[-1]["Authorization"] == "Bearer s3cret"


def test_nothing_listens() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    control = ServerControl(url)
    for call in CALLS:
        with pytest.raises(ServerUnreachable, match=r"^http.*: Connection refused$") as caught:
            getattr(control, call)()
        assert (caught.value.url, caught.value.timed_out) == (url, False)


@pytest.mark.parametrize(
    "answer", [HANG, Answer(body=b"{", declared_length=10, hangs_after=True)], ids=["before the head", "in the body"]
)
def test_connected_and_silent_is_told_from_not_there(answer: Answer) -> None:
    with serving({"/v1/loads": answer}) as server:
        with pytest.raises(ServerUnreachable, match=r"no answer within 0\.1 s") as caught:
            ServerControl(server.url, timeout_s=0.1).loads()
        assert caught.value.timed_out is True


def test_a_field_of_another_type_costs_that_field() -> None:
    ranks = [{"num_running_reqs": 3, "token_usage": "high", "queues": {"retracted": 1}}]
    with serving({"/v1/loads": as_json({"loads": ranks, "version": 5})}) as server:
        control = ServerControl(server.url)
        loads = control.loads()
        assert loads is not None
        assert (loads.loads[0].num_running_reqs, loads.loads[0].token_usage) == (3, None)
        assert loads.version is None
        assert "`token_usage`" in control.problems[0]
        server.answers["/v1/loads"] = as_json({"loads": 5})
        assert control.loads() is None
        assert "no list of objects" in control.problems[0]


def test_metrics_sum_over_dp_ranks_and_average_shares() -> None:
    text = "\n".join(
        [
            "# TYPE sglang:num_running_reqs gauge",
            'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 5.0',
            'sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 5.0',  # the same requests, seen by another TP rank
            'sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 7.0',
            'sglang:token_usage{dp_rank="0"} 0.5',
            'sglang:token_usage{dp_rank="1"} 0.7',
            'sglang:gen_throughput{dp_rank="0"} 100.0',
            'sglang:gen_throughput{dp_rank="1"} NaN',
            'sglang:num_queue_reqs{dp_rank="0" 4.0',
            "sglang:num_queue_reqs",
            'sglang:num_queue_reqs{dp_rank="1"} 2.0',
            "sglang:num_running_reqs_of_another_kind 99.0",
        ]
    )
    values = read_metrics(text)
    assert values.pop("kv_usage") == pytest.approx(0.6)
    assert values == {"running": 12.0, "tokens_per_s": 100.0, "queued": 2.0}


def test_any_cut_of_the_recorded_metrics_is_read_as_far_as_it_goes() -> None:
    text = json.loads((CAPTURES / "A_metrics.json").read_text(encoding="utf-8"))["body"]
    place = text.index("sglang:num_running_reqs{")
    for cut in range(place, place + 160):
        assert set(read_metrics(text[:cut])) <= {"running"}


def test_vocab_size_from_a_local_config(tmp_path: Path) -> None:
    control = ServerControl("http://127.0.0.1:1")
    config = tmp_path / "config.json"
    assert control.vocab_size(None) is None
    assert control.vocab_size("meta-llama/Llama-3.1-8B-Instruct-not-here") is None
    assert control.vocab_size(str(tmp_path)) is None
    for content, expected in [
        ({"vocab_size": 1024}, 1024),
        ({"text_config": {"vocab_size": 163840}, "vocab_size": 7}, 163840),
        ({"thinker_config": {"text_config": {"vocab_size": 152064}}}, 152064),
        ({"vocab_size": True}, None),
        ({"vocab_size": "1024"}, None),
        ([], None),
    ]:
        config.write_text(json.dumps(content), encoding="utf-8")
        assert control.vocab_size(str(tmp_path)) == expected
    assert control.problems == []
    config.write_text("{", encoding="utf-8")
    assert control.vocab_size(str(tmp_path)) is None
    assert str(config) in control.problems[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_case_26_proxy_variables_are_not_applied_and_are_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://user:secret@127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving({"/model_info": recorded("A_model_info")}) as server:  # on 127.0.0.1 only: [::1] is closed
        url = server.url.replace("127.0.0.1", host)
        assert ServerControl(url).model_info() is not None
    note = proxy_note([url])
    assert note is not None
    assert "HTTP_PROXY" in note
    assert url in note
    assert "secret" not in note


def test_no_proxy_note_where_no_proxy_would_have_applied() -> None:
    url = "http://gpu7.cluster.local:30000"
    assert proxy_note([url], {}) is None
    assert proxy_note([], {"HTTP_PROXY": "http://p"}) is None
    for exempt in ("gpu7.cluster.local", ".cluster.local", "cluster.local", "a, *"):
        assert proxy_note([url], {"HTTP_PROXY": "http://p", "NO_PROXY": exempt}) is None
    for other in ("luster.local", "gpu7", ""):
        assert proxy_note([url], {"https_proxy": "http://p", "no_proxy": other}) is not None


def test_each_call_has_its_own_connection() -> None:
    with serving({"/model_info": NOT_FOUND}) as server:
        ServerControl(server.url).model_info()
        assert server.headers[-1]["Connection"] == "close"


@pytest.mark.parametrize(("answer", "status"), [(Answer(), 200), (Answer(status=503), 503), (NOT_FOUND, 404)])
def test_health(answer: Answer, status: int) -> None:
    with serving({"/health": answer}) as server:
        control = ServerControl(server.url)
        health = control.health()
    assert isinstance(health, Health) and health.status == status
    assert control.problems == [] and control.missing == frozenset(), "it is no reading that the screen misses"
