# Which rules and which data decide.
#
# Read in the same evaluation as each decision. All are undefined when the bundle's generated data is missing or
# ill-typed, and no decision is accepted without them.
package muniment.authz

revision := data.muniment.meta.revision if is_string(data.muniment.meta.revision)

default data_revision := 0

data_revision := data.muniment.relationships_meta.revision if is_number(data.muniment.relationships_meta.revision)

reads_now := data.muniment.meta.reads_now if is_boolean(data.muniment.meta.reads_now)

revisions := {
	"policy_revision": revision,
	"data_revision": data_revision,
	"reads_now": reads_now,
}
