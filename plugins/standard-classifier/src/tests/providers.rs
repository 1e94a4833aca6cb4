//! What each provider's own words mean, in bodies of the shapes they have.

use sluice_sdk::FailureKind::*;

use super::assert_all;

#[test]
fn openai_and_azure() {
    assert_all(&[
        (
            "quota",
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
            QuotaExhausted,
        ),
        (
            "rate limit",
            429,
            r#"{"error":{"message":"Rate limit reached for gpt-4o on tokens per min","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
            RetryableRateLimit,
        ),
        (
            "bad key",
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-x","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            AuthDenied,
        ),
        (
            "no access to model",
            403,
            r#"{"error":{"message":"Project does not have access to model","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
            ModelUnavailable,
        ),
        (
            "country",
            403,
            r#"{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","param":null,"code":"unsupported_country_region_territory"}}"#,
            AuthDenied,
        ),
        (
            "context",
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ContextLengthExceeded,
        ),
        (
            "output limit",
            400,
            r#"{"error":{"message":"max_tokens is too large: 99999. This model supports at most 16384 completion tokens","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"}}"#,
            InvalidRequest,
        ),
        (
            "flagged",
            400,
            r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#,
            ContentFiltered,
        ),
        (
            "slow down",
            503,
            r#"{"error":{"message":"Slow down","type":"server_error","param":null,"code":"slow_down"}}"#,
            RetryableRateLimit,
        ),
        (
            "billing",
            400,
            r#"{"error":{"message":"Billing hard limit has been reached","type":"invalid_request_error","param":null,"code":"billing_hard_limit_reached"}}"#,
            QuotaExhausted,
        ),
        (
            "azure filter",
            400,
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true}}}}}"#,
            ContentFiltered,
        ),
        (
            "azure inner code alone",
            400,
            r#"{"error":{"code":"BadRequest","message":"m","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            ContentFiltered,
        ),
        (
            "azure deployment",
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
            ModelUnavailable,
        ),
        (
            "azure operation",
            400,
            r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model"}}"#,
            ModelUnavailable,
        ),
        (
            "azure rate limit",
            429,
            r#"{"error":{"code":"429","message":"Requests have exceeded call rate limit. Please retry after 6 seconds."}}"#,
            RetryableRateLimit,
        ),
        (
            "azure gateway",
            401,
            r#"{"statusCode":401,"message":"Access denied due to invalid subscription key or wrong API endpoint."}"#,
            AuthDenied,
        ),
    ]);
}

#[test]
fn anthropic_and_google() {
    assert_all(&[
        (
            "overloaded",
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            RetryableUpstream,
        ),
        (
            "overloaded in a 200",
            200,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            RetryableUpstream,
        ),
        (
            "credit",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
            QuotaExhausted,
        ),
        (
            "billing",
            403,
            r#"{"type":"error","error":{"type":"billing_error","message":"m"}}"#,
            QuotaExhausted,
        ),
        (
            "context",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            ContextLengthExceeded,
        ),
        (
            "context with output",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            ContextLengthExceeded,
        ),
        (
            "bytes",
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            InvalidRequest,
        ),
        (
            "model",
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#,
            ModelUnavailable,
        ),
        (
            "output filter",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}"#,
            ContentFiltered,
        ),
        (
            "per minute, though it speaks of billing",
            429,
            r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m","quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]"#,
            RetryableRateLimit,
        ),
        (
            "per day",
            429,
            r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}"#,
            QuotaExhausted,
        ),
        (
            "bad key",
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
            AuthDenied,
        ),
        (
            "bad key without details",
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
            AuthDenied,
        ),
        (
            "context",
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            ContextLengthExceeded,
        ),
        (
            "location",
            400,
            r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
            AuthDenied,
        ),
        (
            "argument",
            400,
            r#"{"error":{"code":400,"message":"Invalid value at 'contents'","status":"INVALID_ARGUMENT"}}"#,
            InvalidRequest,
        ),
        (
            "unavailable",
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            RetryableUpstream,
        ),
        (
            "deadline",
            504,
            r#"{"error":{"code":504,"message":"m","status":"DEADLINE_EXCEEDED"}}"#,
            RetryableTimeout,
        ),
    ]);
}

#[test]
fn the_other_hosted_providers() {
    assert_all(&[
        (
            "mistral model",
            400,
            r#"{"object":"error","message":"Invalid model: mistral-x","type":"invalid_model","param":null,"code":"1500"}"#,
            ModelUnavailable,
        ),
        (
            "mistral capacity",
            429,
            r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#,
            RetryableRateLimit,
        ),
        (
            "mistral context",
            400,
            r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}"#,
            ContextLengthExceeded,
        ),
        (
            "mistral validation",
            422,
            r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required","input":{"code":"insufficient_quota"}}]},"type":"invalid_request_error","code":null}"#,
            InvalidRequest,
        ),
        ("mistral auth", 401, r#"{"message":"Unauthorized","request_id":"r"}"#, AuthDenied),
        (
            "groq too large for the minute",
            413,
            r#"{"error":{"message":"Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7500","type":"tokens","code":"rate_limit_exceeded"}}"#,
            RetryableRateLimit,
        ),
        (
            "groq capacity",
            498,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"capacity_exceeded"}}"#,
            RetryableUpstream,
        ),
        (
            "groq decommissioned",
            400,
            r#"{"error":{"message":"The model `m` has been decommissioned","type":"invalid_request_error","code":"model_decommissioned"}}"#,
            ModelUnavailable,
        ),
        (
            "groq context",
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded","param":"messages"}}"#,
            ContextLengthExceeded,
        ),
        (
            "openrouter credits",
            402,
            r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
            QuotaExhausted,
        ),
        (
            "openrouter moderation",
            403,
            r#"{"error":{"code":403,"message":"m requires moderation on P. Your input was flagged for \"violence\".","metadata":{"reasons":["violence"],"flagged_input":"insufficient_quota"}}}"#,
            ContentFiltered,
        ),
        (
            "openrouter model",
            400,
            r#"{"error":{"code":400,"message":"x/y is not a valid model ID"}}"#,
            ModelUnavailable,
        ),
        (
            "openrouter status in a 200",
            200,
            r#"{"error":{"code":429,"message":"Provider returned error"}}"#,
            RetryableRateLimit,
        ),
        (
            "openrouter provider down",
            502,
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"code\":\"invalid_api_key\"}}"}}}"#,
            RetryableUpstream,
        ),
        (
            "together context",
            422,
            r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000","type":"invalid_request_error","param":null,"code":null}}"#,
            ContextLengthExceeded,
        ),
        (
            "together credit",
            402,
            r#"{"error":{"message":"Credit limit exceeded","type":"credit_limit","param":null,"code":null}}"#,
            QuotaExhausted,
        ),
        (
            "together model",
            404,
            r#"{"error":{"message":"Unable to access model m","type":"invalid_request_error","param":null,"code":"model_not_available"}}"#,
            ModelUnavailable,
        ),
        (
            "fireworks suspended",
            412,
            r#"{"error":{"object":"error","type":"invalid_request_error","message":"Account a is suspended, possibly due to reaching the monthly spending limit"}}"#,
            QuotaExhausted,
        ),
        (
            "deepseek balance",
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
            QuotaExhausted,
        ),
        (
            "deepseek auth",
            401,
            r#"{"error":{"message":"Authentication Fails","type":"authentication_error","param":null,"code":"invalid_request_error"}}"#,
            AuthDenied,
        ),
        (
            "deepseek content",
            400,
            r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            ContentFiltered,
        ),
        (
            "deepseek rate",
            429,
            r#"{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"invalid_request_error"}}"#,
            RetryableRateLimit,
        ),
        (
            "bedrock",
            400,
            r#"{"__type":"ThrottlingException","message":"Too many tokens, please wait before trying again."}"#,
            RetryableRateLimit,
        ),
        (
            "bedrock context",
            400,
            r#"{"__type":"ValidationException","message":"Input is too long for requested model."}"#,
            ContextLengthExceeded,
        ),
        (
            "qwen arrears",
            400,
            r#"{"error":{"code":"Arrearage","type":"Arrearage","message":"Access denied, please make sure your account is in good standing."}}"#,
            QuotaExhausted,
        ),
        (
            "qwen inspection",
            400,
            r#"{"error":{"code":"data_inspection_failed","message":"Output data may contain inappropriate content."}}"#,
            ContentFiltered,
        ),
    ]);
}

#[test]
fn servers_that_people_run_themselves() {
    assert_all(&[
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
    ]);
}
