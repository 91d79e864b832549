-- Why: artifacts: files by the hash of their content, uploads on their way, what refers to them, and a secret that all servers share.
-- Locks: nothing; all tables are new.
-- Older servers: they go on; jobs of the kind binary are refused by them, and nothing of artifacts is removed by them.

-- An artifact lives in the segment of its hash. Its content is kept elsewhere, under the hash and the id of the upload that
-- brought it: what is removed late is never what was uploaded again meanwhile.
create table punctual.artifacts (
  segment smallint not null,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  upload_id uuid not null,
  size bigint not null check (size >= 0),
  name text,
  content_type text,
  created_at timestamptz not null default now(),
  used_at timestamptz not null default now(),
  primary key (segment, sha256)
);
create index artifacts_by_time on punctual.artifacts (segment, created_at, sha256);

-- Content that is on its way, or to be removed (over_at). An upload moves from here to artifacts, a deleted artifact back.
create table punctual.artifact_uploads (
  segment smallint not null,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  upload_id uuid not null,
  size bigint not null check (size >= 0),
  part_bytes bigint not null check (part_bytes > 0),
  name text,
  content_type text,
  multipart text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  over_at timestamptz,
  primary key (segment, sha256, upload_id)
);
create unique index artifact_uploads_live on punctual.artifact_uploads (segment, sha256) where over_at is null;
create index artifact_uploads_over on punctual.artifact_uploads (segment, over_at) where over_at is not null;

-- Who needs an artifact: a job, a run or a workflow. In the segment of the artifact, so that the database itself keeps an
-- artifact from going while one of these is being written.
create table punctual.artifact_refs (
  segment smallint not null,
  sha256 text not null,
  owner_id uuid not null,
  primary key (segment, sha256, owner_id),
  constraint artifact_refs_artifact foreign key (segment, sha256) references punctual.artifacts (segment, sha256)
);

-- What a run published, in the segment of the run.
create table punctual.run_artifacts (
  segment smallint not null,
  run_id uuid not null,
  name text not null,
  sha256 text not null,
  size bigint not null,
  attempt smallint not null,
  published_at timestamptz not null default now(),
  primary key (segment, run_id, name)
);

-- Small and shared: made at first use, the same for all servers.
create table punctual.secrets (
  name text primary key,
  value text not null,
  created_at timestamptz not null default now()
);
