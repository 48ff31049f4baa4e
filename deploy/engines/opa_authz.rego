# Who may call this OPA: everything it serves is closed except what gateways need, and that only to the bearer of the
# generated token. The token itself is never here, only its SHA-256, in a data file that is written at each start.
# regal ignore:directory-package-mismatch
package system.authz

default allow := false

allow if _health

allow if {
	_authenticated
	_needed
}

_health if {
	input.method == "GET"
	input.path == ["health"]
}

_authenticated if {
	is_string(input.identity)
	crypto.sha256(input.identity) == data.system.authz.token_sha256
}

_needed if {
	input.method == "POST"
	input.path == ["v1", "compile"]
}

_needed if {
	input.method in {"GET", "POST"}
	array.slice(input.path, 0, 3) == ["v1", "data", "muniment"]
}

_needed if {
	input.method == "PUT"
	array.slice(input.path, 0, 4) == ["v1", "data", "muniment", "relationships"]
}
