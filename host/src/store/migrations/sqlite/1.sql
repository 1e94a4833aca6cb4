CREATE TABLE sluice_records (
    -- Arrival, microseconds since 1970, UTC.
    time_us INTEGER NOT NULL,
    -- Tells records apart whose client used one id twice at once.
    tie INTEGER NOT NULL,
    -- The whole record, as the log has it.
    record TEXT NOT NULL,
    time TEXT NOT NULL GENERATED ALWAYS AS (record ->> 'time') STORED,
    request_id TEXT NOT NULL GENERATED ALWAYS AS (record ->> 'request_id') STORED,
    caller TEXT GENERATED ALWAYS AS (record ->> 'caller') STORED,
    endpoint TEXT GENERATED ALWAYS AS (record ->> 'endpoint') STORED,
    model TEXT GENERATED ALWAYS AS (record ->> 'model') STORED,
    served_model TEXT GENERATED ALWAYS AS (record ->> 'served_model') STORED,
    upstream TEXT GENERATED ALWAYS AS (record ->> 'upstream') STORED,
    route TEXT GENERATED ALWAYS AS (record ->> 'route') STORED,
    is_fallback INTEGER GENERATED ALWAYS AS (record ->> 'is_fallback') STORED,
    stream INTEGER GENERATED ALWAYS AS (record ->> 'stream') STORED,
    status_code INTEGER GENERATED ALWAYS AS (record ->> 'status_code') STORED,
    outcome TEXT GENERATED ALWAYS AS (record ->> 'outcome') STORED,
    failure_kind TEXT GENERATED ALWAYS AS (record ->> 'failure_kind') STORED,
    latency_ms INTEGER GENERATED ALWAYS AS (record ->> 'latency_ms') STORED,
    ttft_ms INTEGER GENERATED ALWAYS AS (record ->> 'ttft_ms') STORED,
    duration_ms INTEGER GENERATED ALWAYS AS (record ->> 'duration_ms') STORED,
    input_tokens INTEGER GENERATED ALWAYS AS (record ->> '$.tokens.input') STORED,
    output_tokens INTEGER GENERATED ALWAYS AS (record ->> '$.tokens.output') STORED,
    generation INTEGER GENERATED ALWAYS AS (record ->> 'generation') STORED
);
CREATE UNIQUE INDEX sluice_records_key ON sluice_records (time_us, request_id, tie);
CREATE INDEX sluice_records_request_id ON sluice_records (request_id);
