# Each rule is one way to write a condition. The line before it says what must become of it: `accept`, with the filter in
# words, or `refuse`, with a part of the advice. See test_residual_idioms.
package muniment.idioms

# accept: allowed_groups has one of 'a', 'b'
some_fragment_group_in_known if {
	some g in input.fragment.allowed_groups
	g in input.principal.groups
}

# accept: allowed_groups has one of 'a', 'b'
some_known_group_in_fragment if {
	some g in input.principal.groups
	g in input.fragment.allowed_groups
}

# accept: allowed_groups has one of 'a', 'b'
wildcards if input.fragment.allowed_groups[_] == input.principal.groups[_]

# accept: labels has one of 'x'
key_and_value if {
	some _, v in input.fragment.labels
	v == "x"
}

# accept: owner == 'alice'
same if input.fragment.owner == input.principal.subject

# accept: owner == 'alice'
same_mirrored if input.principal.subject == input.fragment.owner

# accept: owner == 'alice'
unified if input.fragment.owner = input.principal.subject

# accept: owner == 'alice'
assigned if {
	x := input.fragment.owner
	x == input.principal.subject
}

# accept: owner != 'alice'
unequal if input.fragment.owner != input.principal.subject

# accept: owner != 'alice'
unequal_mirrored if input.principal.subject != input.fragment.owner

# accept: level < 3
less if input.fragment.level < input.principal.attributes.clearance

# accept: level > 3
less_mirrored if input.principal.attributes.clearance < input.fragment.level

# accept: level <= 3
at_most if input.fragment.level <= input.principal.attributes.clearance

# accept: level >= 3
at_most_mirrored if input.principal.attributes.clearance <= input.fragment.level

# accept: level > 3
more if input.fragment.level > input.principal.attributes.clearance

# accept: level < 3
more_mirrored if input.principal.attributes.clearance > input.fragment.level

# accept: level >= 3
at_least if input.fragment.level >= input.principal.attributes.clearance

# accept: level <= 3
at_least_mirrored if input.principal.attributes.clearance >= input.fragment.level

# accept: not (level is absent) and not (level > 3)
not_more if not input.fragment.level > input.principal.attributes.clearance

# accept: valid_from <= 100
time if input.fragment.valid_from <= input.now

# accept: owner is one of 'alice', 'bob'
in_set if input.fragment.owner in {"bob", "alice"}

# accept: language is one of 'de', 'fr'
in_data if input.fragment.language in data.muniment.idioms_data.languages[input.principal.tenant]

# accept: nothing
in_no_data if input.fragment.language in data.muniment.idioms_data.languages.nobody

# accept: level is one of 1, 2
in_numbers if input.fragment.level in [1, 2]

# accept: owner is one of 'alice', 'bob'
each_of_known if {
	some x in ["alice", "bob"]
	x == input.fragment.owner
}

# accept: source is one of 's1', 's3'
looked_up_by_unknown_key if data.muniment.idioms_data.owners[input.fragment.source] == input.principal.subject

# accept: not (public == true)
not_boolean if not input.fragment.public

# accept: not (labels is absent) and not (labels has one of 'secret')
not_member if not "secret" in input.fragment.labels

# accept: not (owner == 'alice')
not_equal if not input.fragment.owner == "alice"

# accept: not (owner is absent) and not (owner != 'alice')
not_unequal if not input.fragment.owner != "alice"

# accept: not (denied_groups has one of 'a', 'b')
not_rule if not _denied

_denied if {
	some g in input.fragment.denied_groups
	g in input.principal.groups
}

# accept: not ((level > 3 and public == true) or owner == 'alice')
not_rules if not _several

_several if input.fragment.owner == "alice"

_several if {
	input.fragment.level > 3
	input.fragment.public
}

# accept: not (owner == 'bob') or public == true
not_rule_with_not if not _hidden

_hidden if {
	input.fragment.owner == "bob"
	not input.fragment.public
}

# accept: public == true
bare_boolean if input.fragment.public

# accept: public == false
false_boolean if input.fragment.public == false

# accept: nothing
equal_null if input.fragment.owner == null

# accept: not (owner is absent)
present if input.fragment.owner != null

# accept: nothing
not_present_at_once if not input.fragment.owner != null

# accept: owner is absent
absent if not _present

_present if input.fragment.owner != null

# accept: not (level > 3)
not_rule_of_order if not _high

_high if input.fragment.level > 3

# accept: not (labels has one of 'secret')
not_rule_of_member if not _secret

_secret if "secret" in input.fragment.labels

# accept: not (owner is one of 'alice', 'bob')
not_rule_of_in if not _known

_known if input.fragment.owner in {"alice", "bob"}

# accept: not (owner != 'alice')
not_rule_of_unequal if not _other

_other if input.fragment.owner != "alice"

# refuse: this call can't become a filter
not_function if not _too_high(input.fragment)

_too_high(x) if x.level > 3

# refuse: this comparison can't become a filter
some_element_unequal if {
	some g in input.fragment.allowed_groups
	not g == "a"
}

# accept: owner == 'bob' or public == true
several_bodies if _either(input.fragment)

_either(x) if x.public

_either(x) if x.owner == "bob"

# accept: everything
always := true

# accept: nothing
never if input.principal.subject == "nobody"

default with_default := false

# accept: public == true
with_default if input.fragment.public

# refuse: startswith can't become a filter
prefix if startswith(input.fragment.owner, "al")

# refuse: can't become a filter
everyone if {
	every l in input.fragment.labels {
		l != "x"
	}
}

# refuse: can't become a filter
counted if count(input.fragment.labels) > 3

# refuse: can't become a filter
calculated if input.fragment.level + 1 > 3

# refuse: this comparison can't become a filter
other_value if _word == "ok"

_word := "ok" if input.fragment.public

else := "no"

# refuse: no `default`
not_default if not with_default

# refuse: `default`
uses_default if with_default

# refuse: two unknown sides
two_attributes if input.fragment.owner == input.fragment.source

# refuse: two unknown sides
element_and_attribute if {
	some g in input.fragment.allowed_groups
	g == input.fragment.owner
}

# refuse: one list element in two conditions
element_twice if {
	some g in input.fragment.allowed_groups
	g in input.principal.groups
	g != "c"
}

# refuse: can't become a filter
element_unequal if {
	some g in input.fragment.allowed_groups
	g != "a"
}

# refuse: can't become a filter
two_lists if {
	some g in input.fragment.allowed_groups
	g in input.fragment.denied_groups
}

# refuse: two unknown sides
comprehension if [x | some x in input.fragment.labels; x == "x"] == ["x"]

# refuse: two unknown sides
whole_list if input.fragment.allowed_groups == ["a"]

# refuse: can't become a filter
by_position if input.fragment.labels[0] == "a"

# refuse: not an attribute
unknown_attribute if input.fragment.colour == "red"

# refuse: not an attribute
known_name_as_attribute if input.fragment[input.principal.subject] == "a"

# refuse: can't become a filter
any_attribute if {
	some k
	input.fragment[k] == "a"
}

# refuse: only a boolean attribute can stand alone
whole_fragment if input.fragment

# refuse: only a boolean attribute can stand alone
bare_text if input.fragment.owner

# refuse: only a boolean attribute can stand alone
not_bare_text if not input.fragment.owner

# refuse: attributes are texts
null_in_list if input.fragment.owner in ["a", null]

# refuse: attributes are texts
fraction if input.fragment.level == 3.5

# refuse: compared with str
level_and_text if input.fragment.level <= input.principal.subject

# refuse: has no order
text_order if input.fragment.owner < "b"

# refuse: compared with int
owner_and_number if input.fragment.owner == 4

# refuse: is not a list
member_of_text if "a" in input.fragment.owner

# refuse: null has no order
null_order if input.fragment.level > null

# refuse: white space
trimmed_by_the_store if input.fragment.owner == " alice"

# refuse: must not be empty
empty_text if input.fragment.owner == ""

# refuse: hold exactly
beyond_exact_integers if input.fragment.level > 9007199254740993

# refuse: can't become a filter
mapping_values if input.fragment.owner in {"k": "alice"}

# refuse: `default`
partial_set if _labels

_labels contains l if some l in input.fragment.labels

# refuse: can't become a filter
object_get if object.get(input.fragment, "owner", "zz") == "alice"

# refuse: can't become a filter
with_else if input.fragment.owner == "a"

else if input.fragment.owner == "b"

# Neither: OPA loses that the owner must be defined.
bound_before_not if {
	o := input.fragment.owner
	not o == "alice"
}
