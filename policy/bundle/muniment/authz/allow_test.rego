package muniment.authz_test

import data.muniment.authz

_source := {
	"id": "s1",
	"trust": 2,
	"writer_groups": ["writers"],
	"writer_subjects": ["wendy"],
	"grant_groups": ["granters"],
	"grant_subjects": ["greta"],
}

_who(subject, groups, roles) := {
	"issuer": "i",
	"subject": subject,
	"tenant": "t1",
	"groups": groups,
	"roles": roles,
	"attributes": {},
}

_allows(rpc, principal, source) if {
	authz.allow with input as {"rpc": rpc, "principal": principal, "source": source}
}

_grants(principal, source) if {
	authz.may_grant with input as {"rpc": "PutDocument", "principal": principal, "source": source}
}

_reader := _who("rita", [], ["reader"])

_by_subject := _who("wendy", [], ["writer"])

_by_group := _who("will", ["writers"], ["writer"])

_publisher := _who("paul", [], ["publisher"])

_granter := _who("greta", ["writers"], ["writer"])

test_reads_need_the_reader_role if {
	every rpc in ["Search", "Answer", "ResolveCitation", "GetDocument", "ListDocuments", "ListRevisions"] {
		_allows(rpc, _reader, null)
		not _allows(rpc, _who("rita", [], []), null)
	}
}

test_writes_need_role_and_membership if {
	every rpc in ["PutDocument", "DeleteDocument", "BeginBuild", "PublishBuild"] {
		_allows(rpc, _by_subject, _source)
		_allows(rpc, _by_group, _source)
		_allows(rpc, _publisher, _source)
		not _allows(rpc, _who("wendy", ["writers"], ["reader"]), _source)
		not _allows(rpc, _who("walt", ["others"], ["writer"]), _source)
		not _allows(rpc, _by_subject, null)
		not _allows(rpc, _publisher, null)
	}
}

test_publishers_calls if {
	every rpc in ["CreateSource", "Rollback", "ListSnapshots", "GetSnapshot", "PublishOthersBuild", "AbandonOthersBuild"] {
		_allows(rpc, _publisher, null)
		not _allows(rpc, _granter, _source)
	}
}

test_granting if {
	_grants(_granter, _source)
	_grants(_who("gil", ["granters"], ["writer"]), _source)
	_grants(_publisher, _source)
	not _grants(_by_subject, _source)
	not _grants(_who("greta", ["granters"], ["reader"]), _source)
	not _grants(_granter, null)
}

test_abandoning_needs_both_rights if {
	_allows("AbandonBuild", _granter, _source)
	not _allows("AbandonBuild", _by_subject, _source)
	not _allows("AbandonBuild", _who("greta", [], ["writer"]), _source)
}

test_setting_access_needs_the_grant_right if {
	_allows("SetAccess", _granter, _source)
	not _allows("SetAccess", _by_group, _source)
}

test_operations_for_whoever_may_start_them if {
	_allows("GetOperation", _by_subject, null)
	not _allows("GetOperation", _who("rita", [], []), null)
}

test_unknown_calls_are_refused if {
	everything := _who("paul", ["writers"], ["reader", "writer", "publisher"])
	not _allows("EraseAll", everything, _source)
	not _allows("", everything, _source)
}

test_ill_typed_rights_name_nobody if {
	not _allows("PutDocument", _by_subject, object.union(_source, {"writer_subjects": "wendy", "writer_groups": null}))
	not _allows("PutDocument", _by_subject, object.union(_source, {"id": 4}))
}

test_answer_is_always_two_booleans if {
	answer := authz.allow_answer with input as {} with data.muniment.meta as {"revision": "p-1", "reads_now": false}
	[answer.allow, answer.may_grant, answer.policy_revision, answer.data_revision] == [false, false, "p-1", 0]
}

test_revision_of_lost_data_is_undefined if {
	not authz.revisions with data.muniment.meta as {}
	not authz.revisions with data.muniment.meta as {"revision": 1, "reads_now": false}
}

test_data_revision_is_that_of_the_relationships if {
	authz.data_revision == 0
	authz.data_revision == 7 with data.muniment.relationships_meta as {"revision": 7}
}

test_a_source_is_shown_to_who_may_write_or_grant if {
	_allows("GetSource", _by_subject, _source)
	_allows("GetSource", _by_group, _source)
	_allows("GetSource", _publisher, _source)
	_allows("GetSource", _granter, _source)
}

test_a_source_is_hidden_from_readers if {
	not _allows("GetSource", _reader, _source)
	not _allows("GetSource", _by_subject, null)
}
