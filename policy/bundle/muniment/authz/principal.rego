# What rules may rely on in a principal.
package muniment.authz

default well_typed_principal := false

# `not` over a missing or ill-typed claim would widen, so each is demanded once, here.
well_typed_principal if {
	_text(input.principal.issuer)
	_text(input.principal.subject)
	_text(input.principal.tenant)
	is_array(input.principal.groups)
	is_array(input.principal.roles)
	is_object(input.principal.attributes)
	every group in input.principal.groups {
		_text(group)
	}
	every role in input.principal.roles {
		is_string(role)
	}
}

_text(value) if {
	is_string(value)
	value != ""
}

_has_role(role) if {
	well_typed_principal
	role in input.principal.roles
}
