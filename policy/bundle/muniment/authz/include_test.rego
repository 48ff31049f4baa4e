package muniment.authz_test

import data.muniment.authz

_principal := {
	"issuer": "i",
	"subject": "alice",
	"tenant": "t1",
	"groups": ["eng", "all"],
	"roles": ["reader"],
	"attributes": {"clearance": 3},
}

_meta := {"revision": "p-1", "reads_now": false, "tenant_packages": []}

_includes(principal, fragment) if {
	authz.include with input as {"principal": principal, "fragment": fragment, "now": 1}
		with data.muniment.meta as _meta
}

_without(path) := json.remove(_principal, [path])

test_public_in_own_tenant if _includes(_principal, {"tenant": "t1", "public": true})

test_public_of_another_tenant_is_hidden if not _includes(_principal, {"tenant": "t2", "public": true})

test_fragment_without_tenant_is_hidden if not _includes(_principal, {"public": true})

test_fragment_without_access_is_hidden if not _includes(_principal, {"tenant": "t1"})

test_not_public_is_hidden if not _includes(_principal, {"tenant": "t1", "public": false})

test_owner if _includes(_principal, {"tenant": "t1", "owner": "alice"})

test_other_owner if not _includes(_principal, {"tenant": "t1", "owner": "bob"})

test_allowed_group if _includes(_principal, {"tenant": "t1", "allowed_groups": ["ops", "eng"]})

test_other_group if not _includes(_principal, {"tenant": "t1", "allowed_groups": ["ops"]})

test_denied_group_beats_owner if {
	not _includes(_principal, {"tenant": "t1", "owner": "alice", "denied_groups": ["eng"]})
}

test_other_denied_group if _includes(_principal, {"tenant": "t1", "owner": "alice", "denied_groups": ["ops"]})

test_level_within_clearance if _includes(_principal, {"tenant": "t1", "public": true, "level": 3})

test_level_above_clearance if not _includes(_principal, {"tenant": "t1", "public": true, "level": 4})

test_level_without_clearance if {
	not _includes(_without("/attributes/clearance"), {"tenant": "t1", "public": true, "level": 0})
}

test_no_level_without_clearance if _includes(_without("/attributes/clearance"), {"tenant": "t1", "public": true})

test_clearance_must_be_a_number if {
	principal := object.union(_principal, {"attributes": {"clearance": "9"}})
	not _includes(principal, {"tenant": "t1", "public": true, "level": 1})
}

test_confidential_is_never_public if {
	not _includes(_principal, {"tenant": "t1", "public": true, "classification": "confidential"})
}

test_confidential_for_owner_and_group if {
	_includes(_principal, {"tenant": "t1", "owner": "alice", "classification": "confidential"})
	_includes(_principal, {"tenant": "t1", "allowed_groups": ["all"], "classification": "confidential"})
}

test_ill_typed_principals_see_nothing if {
	every wrong in [{"groups": "eng"}, {"groups": ["eng", 1]}, {"tenant": ""}, {"subject": null}, {"attributes": []}] {
		not _includes(object.union(_principal, wrong), {"tenant": "t1", "public": true})
	}
}

test_principals_without_a_claim_see_nothing if {
	every path in ["/issuer", "/subject", "/tenant", "/groups", "/roles", "/attributes"] {
		not _includes(_without(path), {"tenant": "t1", "public": true})
	}
}

test_no_groups_see_only_public_and_own if {
	alone := object.union(_principal, {"groups": []})
	not _includes(alone, {"tenant": "t1", "allowed_groups": ["eng"]})
	_includes(alone, {"tenant": "t1", "owner": "alice"})
}

test_a_tenants_package_narrows if {
	meta := object.union(_meta, {"tenant_packages": ["t1"]})
	fragment := {"tenant": "t1", "public": true}
	asked := {"principal": _principal, "fragment": fragment}
	authz.include with input as asked with data.muniment.meta as meta with data.muniment.tenants.t1.include as true
	not authz.include with input as asked with data.muniment.meta as meta with data.muniment.tenants.t1.include as false
	not authz.include with input as asked with data.muniment.meta as meta
}

test_a_tenants_package_does_not_widen if {
	meta := object.union(_meta, {"tenant_packages": ["t1"]})
	not authz.include with input as {"principal": _principal, "fragment": {"tenant": "t2", "public": true}}
		with data.muniment.meta as meta
		with data.muniment.tenants.t1.include as true
}

test_lost_bundle_data_denies if {
	asked := {"principal": _principal, "fragment": {"tenant": "t1", "public": true}}
	not authz.include with input as asked with data.muniment.meta as {}
}

test_visible_checks_each_fragment if {
	authz.visible == {"a"} with data.muniment.meta as _meta
		with input as {"now": 1, "principal": _principal, "fragments": [
			{"id": "a", "attributes": {"tenant": "t1", "public": true}},
			{"id": "b", "attributes": {"tenant": "t1"}},
			{"id": "c", "attributes": {"tenant": "t2", "public": true}},
			{"id": 4, "attributes": {"tenant": "t1", "public": true}},
		]}
}

test_visible_to_an_ill_typed_principal_is_nothing if {
	authz.visible == set() with data.muniment.meta as _meta
		with input as {
			"now": 1,
			"principal": _without("/roles"),
			"fragments": [{"id": "a", "attributes": {"tenant": "t1", "public": true}}],
		}
}

test_visible_of_no_fragments_is_empty if {
	authz.visible == set() with input as {"now": 1, "principal": _principal} with data.muniment.meta as _meta
}
