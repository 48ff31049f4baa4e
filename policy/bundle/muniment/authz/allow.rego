# Which RPC a principal may call.
#
# Input: `rpc`, `principal` and `source`: null, or `{id, trust, writer_groups, writer_subjects, grant_groups,
# grant_subjects}`. What is not named here is refused. Which fragments a read returns is `include`'s.
package muniment.authz

default allow := false

allow if {
	input.rpc in _reads
	_has_role("reader")
}

allow if {
	input.rpc in _operation_reads
	some role in ["reader", "writer", "publisher"]
	_has_role(role)
}

allow if {
	input.rpc in _writes
	_may_write
}

# A source is shown to who may write to it or grant access on it; to others it is as if it were not there.
allow if {
	input.rpc == "GetSource"
	_may_write
}

allow if {
	input.rpc == "GetSource"
	may_grant
}

allow if {
	input.rpc == "AbandonBuild"
	_may_write
	may_grant
}

allow if {
	input.rpc == "SetAccess"
	may_grant
}

allow if {
	input.rpc in _publisher_calls
	_has_role("publisher")
}

# Naming an access other than the source's template or the document's current one.
default may_grant := false

may_grant if {
	_a_source
	_has_role("publisher")
}

may_grant if {
	_a_source
	_has_role("writer")
	_named(input.source.grant_groups, input.source.grant_subjects)
}

_may_write if {
	_a_source
	_has_role("publisher")
}

_may_write if {
	_a_source
	_has_role("writer")
	_named(input.source.writer_groups, input.source.writer_subjects)
}

_a_source if {
	is_string(input.source.id)
	input.source.id != ""
}

_named(_, subjects) if {
	is_array(subjects)
	input.principal.subject in subjects
}

_named(groups, _) if {
	is_array(groups)
	some group in groups
	group in input.principal.groups
}

_reads := {
	"Search",
	"Answer",
	"ResolveCitation",
	"ListSources",
	"GetDocument",
	"ListDocuments",
	"ListRevisions",
}

_operation_reads := {"GetOperation", "WatchOperation"}

_writes := {"PutDocument", "DeleteDocument", "BeginBuild", "PublishBuild"}

# The last two are PublishBuild and AbandonBuild of a build that somebody else began.
_publisher_calls := {
	"CreateSource",
	"Rollback",
	"ListSnapshots",
	"GetSnapshot",
	"PublishOthersBuild",
	"AbandonOthersBuild",
}

allow_answer := {
	"allow": allow,
	"may_grant": may_grant,
	"policy_revision": revision,
	"data_revision": data_revision,
	"reads_now": reads_now,
}
