"""The catalog's tables. Times are microseconds since 1970, UTC; JSON columns are text.

`number` is drawn per document with every accepted mutation and orders puts, access changes and deletions (design §7).
"""

import sqlalchemy as sa

from core.ids import OPEN_SEQ

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts up INTEGER keys only

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

tenants = sa.Table(
    "tenants",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("active_seq", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column(
        "head_seq", sa.BigInteger, nullable=False, server_default="0"
    ),  # newest published; above active after rollback
    sa.Column("last_seq", sa.BigInteger, nullable=False, server_default="0"),  # last drawn: never drawn again
    sa.Column("low_seq", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("representation_id", sa.Text, nullable=False),
    sa.Column("policy_revision", sa.Text, nullable=False),
    sa.Column("data_revision", sa.BigInteger, nullable=False, server_default="0"),
    sa.CheckConstraint("active_seq <= head_seq AND head_seq <= last_seq", name="seqs_in_order"),
)

sources = sa.Table(
    "sources",
    metadata,
    sa.Column("tenant_id", sa.Text, sa.ForeignKey("tenants.tenant_id"), primary_key=True),
    sa.Column("source_id", sa.Text, primary_key=True),
    sa.Column("display_name", sa.Text, nullable=False),
    sa.Column("trust", sa.Integer, nullable=False),
    sa.Column("access_template", sa.Text),  # digest
    sa.Column("rights", sa.Text, nullable=False),  # JSON: writer_groups, writer_subjects, grant_groups, grant_subjects
    sa.Column("version", sa.BigInteger, nullable=False, server_default="1"),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)

accesses = sa.Table(
    "accesses",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("document_key", Key, primary_key=True, autoincrement=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("source_id", sa.Text, nullable=False),
    sa.Column("document_id", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("access", sa.Text, sa.ForeignKey("accesses.digest"), nullable=False),  # the document's current one
    sa.Column("access_number", sa.BigInteger, nullable=False),  # number of the change that set it
    sa.Column("tombstone", sa.BigInteger, nullable=False, server_default="0"),  # number of the last delete
    sa.ForeignKeyConstraint(
        ["tenant_id", "source_id"], ["sources.tenant_id", "sources.source_id"], name="fk_documents_source"
    ),
    sa.UniqueConstraint("tenant_id", "source_id", "document_id"),
    sa.CheckConstraint("tombstone <= number AND access_number <= number", name="numbers_in_order"),
)

revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("revision_key", Key, primary_key=True, autoincrement=True),
    sa.Column("revision_id", sa.Text, nullable=False, unique=True),
    sa.Column("document_key", Key, sa.ForeignKey("documents.document_key"), nullable=False, index=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("retracted", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("given", sa.Text, sa.ForeignKey("accesses.digest"), nullable=False),  # access named by its put
    sa.Column("own", sa.Text, nullable=False),  # JSON list of digests: all must permit
    sa.Column("named", sa.BigInteger, nullable=False, server_default="0"),  # number of the last SetAccess that named it
    sa.Column("binding", sa.Text, nullable=False),  # JSON list of digests: `own`, the document's, pending puts'
    sa.Column("store_access", sa.Text, sa.ForeignKey("accesses.digest"), nullable=False),  # what the store carries
    sa.Column("access_version", sa.BigInteger, nullable=False, server_default="0"),  # counts changes of store_access
    sa.Column("build_id", sa.Text),
    sa.Column("operation_id", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("source_version", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("request_digest", sa.Text, nullable=False),  # of content and metadata: equal means unchanged
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("media_type", sa.Text, nullable=False),
    sa.Column("filename", sa.Text, nullable=False),
    sa.Column("title", sa.Text, nullable=False, server_default=""),
    sa.Column("language", sa.Text),
    sa.Column("canonical_uri", sa.Text, nullable=False, server_default=""),
    sa.Column("valid_from", sa.BigInteger),  # whole seconds
    sa.Column("valid_to", sa.BigInteger),
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("original_blob", sa.Text, nullable=False),
    sa.Column("canonical_blob", sa.Text),
    sa.Column("nodes_blob", sa.Text),
    sa.Column("vectors_blob", sa.Text),
    sa.Column("content_hash", sa.Text),
    sa.Column("parser_version", sa.Text),
    sa.Column("representation_id", sa.Text),
    sa.Column("warnings", sa.Text, nullable=False, server_default="[]"),
    sa.UniqueConstraint("document_key", "number"),
    sa.CheckConstraint(
        "state IN ('accepted', 'staged', 'published', 'dropped', 'abandoned', 'failed')", name="known_state"
    ),
    sa.CheckConstraint(
        "state NOT IN ('staged', 'published') OR (canonical_blob IS NOT NULL AND vectors_blob IS NOT NULL)",
        name="staged_is_whole",
    ),
)
sa.Index(
    "ix_revisions_pending",
    revisions.c.tenant_id,
    revisions.c.state,
    sqlite_where=revisions.c.state.in_(["accepted", "staged"]),
    postgresql_where=revisions.c.state.in_(["accepted", "staged"]),
)
sa.Index("ix_revisions_build", revisions.c.build_id)

intervals = sa.Table(
    "intervals",
    metadata,
    sa.Column("revision_key", Key, sa.ForeignKey("revisions.revision_key"), primary_key=True),
    sa.Column("from_seq", sa.BigInteger, primary_key=True),
    sa.Column("to_seq", sa.BigInteger, nullable=False, server_default=str(OPEN_SEQ)),
    sa.Column("document_key", Key, nullable=False),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.CheckConstraint("from_seq < to_seq", name="not_empty"),
)
# One document is served by one revision at a time.
sa.Index(
    "uq_intervals_open",
    intervals.c.document_key,
    unique=True,
    sqlite_where=intervals.c.to_seq == OPEN_SEQ,
    postgresql_where=intervals.c.to_seq == OPEN_SEQ,
)
sa.Index("ix_intervals_tenant", intervals.c.tenant_id, intervals.c.from_seq)

fragments = sa.Table(
    "fragments",
    metadata,
    sa.Column("fragment_id", sa.Text, primary_key=True),
    sa.Column("revision_key", Key, sa.ForeignKey("revisions.revision_key"), nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("span_start", sa.Integer, nullable=False),
    sa.Column("span_end", sa.Integer, nullable=False),
    sa.Column("text_hash", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("layout", sa.Text, nullable=False),  # JSON: section_path, parent, header, pages
    sa.UniqueConstraint("revision_key", "ordinal"),
    sa.CheckConstraint("span_start < span_end", name="not_empty"),
    sqlite_with_rowid=False,
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("base_seq", sa.BigInteger, nullable=False),
    sa.Column("published_at", sa.BigInteger, nullable=False),
    sa.Column("documents", sa.BigInteger, nullable=False),
    sa.CheckConstraint("base_seq < seq", name="grows"),
)

activations = sa.Table(
    "activations",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("activated_at", sa.BigInteger, nullable=False),
)

builds = sa.Table(
    "builds",
    metadata,
    sa.Column("build_id", sa.Text, primary_key=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("source_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),  # issuer and subject
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("operation_id", sa.Text),
    sa.CheckConstraint("state IN ('open', 'sealed', 'published', 'abandoned')", name="known_state"),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text),  # NULL: free
    sa.Column("token", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("expires_at", sa.BigInteger, nullable=False, server_default="0"),
)

publications = sa.Table(  # the publication in progress, of which a tenant has one at most
    "publications",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("base_seq", sa.BigInteger, nullable=False),
    sa.Column("operation_id", sa.Text, nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
)

publication_entries = sa.Table(
    "publication_entries",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("revision_key", Key, primary_key=True),
    sa.Column("action", sa.Text, nullable=False),
    sa.CheckConstraint("action IN ('add', 'fresh', 'close')", name="known_action"),
)

operations = sa.Table(
    "operations",
    metadata,
    sa.Column("operation_id", sa.Text, primary_key=True),
    sa.Column("tenant_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),  # issuer and subject; empty: the system
    sa.Column("revision_id", sa.Text),
    sa.Column("build_id", sa.Text),
    sa.Column("done", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("total", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("failed", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("seq", sa.BigInteger),
    sa.Column("failure", sa.Text),
    sa.Column("message", sa.Text, nullable=False, server_default=""),
    sa.Column("warnings", sa.Text, nullable=False, server_default="[]"),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.CheckConstraint("state IN ('pending', 'running', 'succeeded', 'failed')", name="known_state"),
)
sa.Index(
    "ix_operations_unfinished",
    operations.c.state,
    sqlite_where=operations.c.state.in_(["pending", "running"]),
    postgresql_where=operations.c.state.in_(["pending", "running"]),
)

unsettled = sa.Table(  # documents that an operation has changed and the store has not confirmed on every replica
    "unsettled",
    metadata,
    sa.Column("operation_id", sa.Text, primary_key=True),
    sa.Column("document_key", Key, primary_key=True),
    sa.Column("tenant_id", sa.Text, nullable=False, index=True),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("tenant_id", sa.Text, primary_key=True),
    sa.Column("caller", sa.Text, primary_key=True),
    sa.Column("rpc", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("request_digest", sa.Text, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False, index=True),
)
