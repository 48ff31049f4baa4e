# The second check of fragments that were found.
#
# `input.fragments` holds `{id, attributes}`. Ids must be distinct: one that is repeated is visible if any of its
# entries is.
package muniment.authz

visible contains fragment.id if {
	some fragment in input.fragments
	is_string(fragment.id)
	include with input.fragment as fragment.attributes
}

visible_answer := {
	"visible": visible,
	"policy_revision": revision,
	"data_revision": data_revision,
	"reads_now": reads_now,
}
