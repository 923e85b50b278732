"""Secrets by key and by shape are masked; what language models are made of stays."""

from __future__ import annotations

import pytest

from autoexp_tui.model.masking import (
    MASK,
    MaskRules,
    is_secret_key,
    mask_override,
    mask_text,
    mask_value,
    mask_words,
    mask_yaml,
)

OF_MODELS = """
    train_tokens num_tokens tokens_per_batch max_tokens total_tokens tokens_seen
    tokenizer tokenizer_path tokenizer_type tokenizer_model tokenizer_name vocab_size
    num_key_value_heads key_value_heads num_query_groups kv_channels qk_layernorm
    query_key_value attention_key key_size hidden_size keys metric_key sort_key
    primary_key cache_key group_key bos_token eos_token pad_token unk_token cls_token
    sep_token mask_token eod_token image_token stop_token bos_token_id eos_token_id
    pad_token_id special_tokens additional_special_tokens tokens token_dropout
    tokens_per_expert drop_tokens moe_token_dispatcher_type token_type_ids
    cost_per_token max_new_tokens min_tokens count_tokens train.tokens
    data.train_tokens model.num_key_value_heads secret_santa_dataset passwordless
    private_dataset public_key_size keyboard credentials_file_count api_version
    access_mode secretary monkey turkey loss_key_name shared_key_projection
    tokenization authorize
""".split()  # noqa: SIM905 - a list of sixty lines is read worse


OF_SECRETS = """
    token hf.token HF_TOKEN hubToken wandb-token a.b.secret password db.passwd
    credential credentials apikey APIKEY api_key WANDB_API_KEY apiKey aws.access_key
    AWS_SECRET_ACCESS_KEY secret_key ssh.private-key privateKey ++x.token --hf-token
""".split()  # noqa: SIM905


def test_keys_of_secrets_are_masked_and_those_of_language_models_stay() -> None:
    assert [key for key in OF_MODELS if is_secret_key(key)] == []
    assert [key for key in OF_SECRETS if not is_secret_key(key)] == []
    assert {mask_value(key, "abc-def") for key in OF_SECRETS} == {MASK}


def test_what_is_no_text_stays_and_known_shapes_are_masked_anywhere() -> None:
    for value in (3, 3.5, True, None, ["a"], "/home/u/.token", "~/.token", "12",
                  "${oc.env:T}", ""):  # fmt: skip
        assert mask_value("token", value) == value
    for shape in (
        "hf_abcdefghijklmnopqrstuvwxyz", "sk-abcdefghijklmnopqrstuv",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "AKIAIOSFODNN7EXAMPLE",
    ):  # fmt: skip
        assert shape not in mask_text(f"login {shape} done")
        assert mask_value("name", shape) == MASK


@pytest.mark.parametrize(("text", "shown"), [
    ("clone https://ada:s3cr3t@host/x http://h:80/y",
     f"clone https://ada:{MASK}@host/x http://h:80/y"),
    ("hf.token=abc", "hf.token=***"), ("api_key: abc", "api_key: ***"),
    ("export API_KEY='a b'", "export API_KEY='***'"),
    ("+password: x", "+password: ***"), ("cmd: --hf-token abc", "cmd: --hf-token ***"),
    ('{"token": "abc", "n": 1}', '{"token": "***", "n": 1}'),
    ('{"token":"abc","n":1}', '{"token":"***","n":1}'),
    ("train_tokens=1e9 tokenizer=gpt2", "train_tokens=1e9 tokenizer=gpt2"),
    ("next token was found", "next token was found"),
    ("words: --lr 1 --hf-token abc", "words: --lr 1 --hf-token ***"),
    ("-HF_TOKEN = 'abc'", "-HF_TOKEN = '***'"),
    ("+hf={token:abc,n:1}", "+hf={token:***,n:1}"),
    ("os.environ['HF_TOKEN'] = 'abc'", "os.environ['HF_TOKEN'] = '***'"),
    ("if token == 'abc':", "if token == '***':"),
    ("(token := 'abc')", "(token := '***')"),
    ("lr: 1e-4, path: a/b", "lr: 1e-4, path: a/b"),
])  # fmt: skip
def test_pairs_in_a_text(text: str, shown: str) -> None:
    assert mask_text(text) == shown


def test_words_of_a_command_and_overrides() -> None:
    words = ("t", "--hf-token", "abc", "--key=1", "--api-key=x y", "a.token=b")
    shown = ("t", "--hf-token", MASK, "--key=1", f"--api-key={MASK}", f"a.token={MASK}")
    assert mask_words(words) == shown
    assert mask_override("++hf.token='a b'") == f"++hf.token={MASK}"
    for kept in ("hf.token=${oc.env:T}", "lr=1e-4"):
        assert mask_override(kept) == kept


@pytest.mark.parametrize(("text", "shown"), [
    ("a: 1\nhf:\n  token: abc\n  private_key: |\n    one\n\n    two\n  n: 2\n"
     "password:\n  deep: x\n",
     "a: 1\nhf:\n  token: '***'\n  private_key: '***'\n  n: 2\n"
     "password:\n  deep: x\n"),
    ("+private_key: |\n+  -----BEGIN\n+  abc\n+n: 1\n- token: a\n  b: 1\n",
     "+private_key: '***'\n+n: 1\n- token: '***'\n  b: 1\n"),
])  # fmt: skip
def test_yaml_of_many_lines_and_a_diff_of_it(text: str, shown: str) -> None:
    assert mask_yaml(text) == shown


def test_a_config_says_what_else_and_what_not() -> None:
    rules = MaskRules(add=("wandb.entity", "pin"), keep=("prompt.token", "hf_token"))
    assert mask_value("wandb.entity", "abc", rules) == MASK
    assert mask_value("door.pin", "abc", rules) == MASK
    assert mask_value("prompt.token", "abc", rules) == "abc"
    assert mask_text("hf_token=abc token=abc", rules) == "hf_token=abc token=***"
