CREATE TABLE sluice_records (
    -- Arrival.
    time timestamptz NOT NULL,
    -- Tells records apart whose client used one id twice at once.
    tie bigint NOT NULL,
    -- The whole record, as the log has it.
    record jsonb NOT NULL,
    request_id text NOT NULL GENERATED ALWAYS AS (record ->> 'request_id') STORED,
    caller text GENERATED ALWAYS AS (record ->> 'caller') STORED,
    endpoint text GENERATED ALWAYS AS (record ->> 'endpoint') STORED,
    model text GENERATED ALWAYS AS (record ->> 'model') STORED,
    served_model text GENERATED ALWAYS AS (record ->> 'served_model') STORED,
    upstream text GENERATED ALWAYS AS (record ->> 'upstream') STORED,
    route text GENERATED ALWAYS AS (record ->> 'route') STORED,
    is_fallback boolean GENERATED ALWAYS AS ((record ->> 'is_fallback')::boolean) STORED,
    stream boolean GENERATED ALWAYS AS ((record ->> 'stream')::boolean) STORED,
    status_code integer GENERATED ALWAYS AS ((record ->> 'status_code')::integer) STORED,
    outcome text GENERATED ALWAYS AS (record ->> 'outcome') STORED,
    failure_kind text GENERATED ALWAYS AS (record ->> 'failure_kind') STORED,
    latency_ms bigint GENERATED ALWAYS AS ((record ->> 'latency_ms')::bigint) STORED,
    ttft_ms bigint GENERATED ALWAYS AS ((record ->> 'ttft_ms')::bigint) STORED,
    duration_ms bigint GENERATED ALWAYS AS ((record ->> 'duration_ms')::bigint) STORED,
    input_tokens bigint GENERATED ALWAYS AS ((record #>> '{tokens,input}')::bigint) STORED,
    output_tokens bigint GENERATED ALWAYS AS ((record #>> '{tokens,output}')::bigint) STORED,
    generation bigint GENERATED ALWAYS AS ((record ->> 'generation')::bigint) STORED
);
CREATE UNIQUE INDEX sluice_records_key ON sluice_records (time, request_id, tie);
CREATE INDEX sluice_records_request_id ON sluice_records (request_id);
