//! Servers that people run themselves.

use sluice_sdk::FailureKind::{
    AuthDenied, ContextLengthExceeded, InvalidRequest, ModelUnavailable, RetryableUpstream,
};

use crate::tests::{Case, assert_all};

const CASES: &[Case] = &[
    (
        "vllm context",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}"#,
        ContextLengthExceeded,
    ),
    (
        "vllm model",
        404,
        r#"{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
        ModelUnavailable,
    ),
    (
        "vllm request",
        400,
        r#"{"error":{"message":"1 validation error for ValidatorIterator","type":"BadRequestError","param":null,"code":400}}"#,
        InvalidRequest,
    ),
    ("vllm auth", 401, r#"{"error":"Unauthorized"}"#, AuthDenied),
    (
        "vllm error in a stream",
        200,
        r#"{"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","param":null,"code":500}}"#,
        RetryableUpstream,
    ),
    (
        "sglang context",
        400,
        r#"{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).","type":"BadRequestError","param":null,"code":400}"#,
        ContextLengthExceeded,
    ),
    (
        "llama.cpp context",
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        ContextLengthExceeded,
    ),
    (
        "llama.cpp loading",
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        RetryableUpstream,
    ),
    (
        "ollama model",
        404,
        r#"{"error":{"message":"model 'm' not found, try pulling it first","type":"api_error","param":null,"code":null}}"#,
        ModelUnavailable,
    ),
    ("ollama model as a bad request", 400, r#"{"error":"model 'm' not found"}"#, ModelUnavailable),
    (
        "tgi overloaded",
        429,
        r#"{"error":"Model is overloaded","error_type":"overloaded"}"#,
        RetryableUpstream,
    ),
    (
        "tgi context",
        422,
        r#"{"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 2000","error_type":"validation"}"#,
        ContextLengthExceeded,
    ),
];

#[test]
fn what_it_says_is_understood() {
    assert_all(CASES);
}
