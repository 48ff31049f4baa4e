# Which fragments a principal may see.
#
# Platform guards AND the default rule AND, where the tenant has a package of its own, its `include`: a tenant's rules
# only narrow. Written in idioms that become a store filter when `input.fragment` is unknown; an attribute that a
# fragment lacks is undefined here and null in the store.
package muniment.authz

default include := false

include if {
	well_typed_principal
	_permitted
}

# For a principal that was found well typed: `visible` asks that once, not for each fragment.
_permitted if {
	input.fragment.tenant == input.principal.tenant
	not _denied
	not _above_clearance
	_granted
	_tenant_permits
}

_denied if {
	some group in input.fragment.denied_groups
	group in input.principal.groups
}

# Without a clearance no level is low enough; a fragment without a level asks for none.
_above_clearance if {
	not _has_clearance
	input.fragment.level != null
}

_above_clearance if {
	_has_clearance
	input.fragment.level > input.principal.attributes.clearance
}

_has_clearance if is_number(input.principal.attributes.clearance)

_granted if {
	input.fragment.public == true
	not _confidential
}

_granted if input.fragment.owner == input.principal.subject

_granted if {
	some group in input.fragment.allowed_groups
	group in input.principal.groups
}

_confidential if input.fragment.classification == "confidential"

# The list of packages is a positive condition: were the bundle's data lost, `not` alone would let everybody through.
_tenant_permits if {
	is_array(data.muniment.meta.tenant_packages)
	not input.principal.tenant in data.muniment.meta.tenant_packages
}

_tenant_permits if {
	input.principal.tenant in data.muniment.meta.tenant_packages

	# regal ignore:unresolved-reference
	data.muniment.tenants[input.principal.tenant].include == true
}
