-- The ledger's tables as their first version made them.
CREATE TABLE attempts (
    gang_id VARCHAR(1000) NOT NULL,
    submission INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    placement TEXT NOT NULL,
    host_id VARCHAR(253) NOT NULL,
    admitted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    start_by TIMESTAMP WITH TIME ZONE NOT NULL,
    launched_at TIMESTAMP WITH TIME ZONE,
    started_at TIMESTAMP WITH TIME ZONE,
    claimed_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE,
    lease_expires_at TIMESTAMP WITH TIME ZONE,
    backend_ref TEXT NOT NULL,
    progress TEXT,
    committed_step INTEGER,
    end_facts TEXT,
    verdict TEXT,
    PRIMARY KEY (gang_id, submission, attempt)
);

CREATE TABLE history (
    number BIGSERIAL NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    gang_id VARCHAR(1000) NOT NULL,
    submission INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    event VARCHAR(40) NOT NULL,
    sentence TEXT NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (number)
);

CREATE INDEX history_by_gang ON history (gang_id, number);

CREATE TABLE ledger_contact (
    id INTEGER NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE ledger_schema (
    version INTEGER NOT NULL
);

CREATE TABLE ledger_version (
    id INTEGER NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE nodes (
    pool VARCHAR(100) NOT NULL,
    node VARCHAR(253) NOT NULL,
    host_id VARCHAR(253) NOT NULL,
    cpus FLOAT NOT NULL,
    memory_gib FLOAT NOT NULL,
    gpus INTEGER NOT NULL,
    is_cordoned BOOLEAN NOT NULL,
    cordon_reason TEXT NOT NULL,
    PRIMARY KEY (pool, node)
);

CREATE TABLE outbox (
    number BIGSERIAL NOT NULL,
    kind VARCHAR(10) NOT NULL,
    gang_id VARCHAR(1000) NOT NULL,
    submission INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    pool VARCHAR(100) NOT NULL,
    host_id VARCHAR(253) NOT NULL,
    claimed_until TIMESTAMP WITH TIME ZONE,
    tries INTEGER NOT NULL,
    PRIMARY KEY (number)
);

CREATE TABLE submissions (
    gang_id VARCHAR(1000) NOT NULL,
    submission INTEGER NOT NULL,
    dag_id VARCHAR(250) NOT NULL,
    digest VARCHAR(128) NOT NULL,
    request TEXT NOT NULL,
    run_dir TEXT NOT NULL,
    resume_from TEXT NOT NULL,
    reused_from TEXT NOT NULL,
    owner VARCHAR(250) NOT NULL,
    generation INTEGER NOT NULL,
    asked_with VARCHAR(250) NOT NULL,
    submitted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    state VARCHAR(20) NOT NULL,
    state_since TIMESTAMP WITH TIME ZONE NOT NULL,
    attempt INTEGER NOT NULL,
    not_before TIMESTAMP WITH TIME ZONE,
    wait_reason VARCHAR(40) NOT NULL,
    wait_sentence TEXT NOT NULL,
    stop_is_requested BOOLEAN NOT NULL,
    is_released BOOLEAN NOT NULL,
    stop_why TEXT NOT NULL,
    stop_deadline TIMESTAMP WITH TIME ZONE,
    limit_verdict TEXT,
    verdict TEXT,
    verdict_is_pending BOOLEAN NOT NULL,
    infrastructure_ends INTEGER NOT NULL,
    user_ends INTEGER NOT NULL,
    queued_s FLOAT NOT NULL,
    starting_s FLOAT NOT NULL,
    running_s FLOAT NOT NULL,
    recovering_s FLOAT NOT NULL,
    result TEXT NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    change BIGINT NOT NULL,
    PRIMARY KEY (gang_id, submission)
);

CREATE INDEX submissions_by_digest ON submissions (digest, state);

CREATE INDEX submissions_by_time ON submissions (submitted_at);

CREATE INDEX submissions_live ON submissions (ended_at);

CREATE TABLE tick_lock (
    id INTEGER NOT NULL,
    holder VARCHAR(64) NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (id)
);
