"""The mistakes that the protocol model names, made in our code: each edit, and the test that it must not survive.

The names are those of `protocol_model.py --list`. Edits apply exactly once to the file as it is, so that who changes
the code is told to keep the table honest.
"""

from dataclasses import dataclass

STEPS = "tests/protocol/test_publication_steps.py::"
ACCESS = "tests/protocol/test_access_changes.py::"
ROLLBACKS = "tests/protocol/test_rollbacks.py::"
RELEASE = "tests/protocol/test_release_race.py::"
WRITES = "tests/protocol/test_store_writes.py::"
LIES = "tests/protocol/test_lying_store.py::"


@dataclass(frozen=True)
class Edit:
    """`old` occurs once in `file`, a path from the repository's root."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mistake:
    """What is done wrong, and the id of a test that fails then."""

    test: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class NotYet:
    """Why the mistake can't be made in our code."""

    reason: str


def _one(test: str, file: str, old: str, new: str) -> Mistake:
    return Mistake(test, (Edit(file, old, new),))


MISTAKES: dict[str, Mistake | NotYet] = {
    "no_overlay": _one(
        ACCESS + "test_an_access_change_that_is_not_settled_costs_no_second_search",
        "corpus/reading.py",
        "self._overlay = self._read_overlay() if pin.unsettled else frozenset()",
        "self._overlay: frozenset[RevisionId] = frozenset()",
    ),
    "overlay_for_everyone": _one(
        ACCESS + "test_a_revision_narrowed_for_one_is_still_found_by_the_others_without_a_second_search",
        "corpus/reading.py",
        "if not (fit and self._permits(about, binding))",
        "if not (fit and len(_digests(binding)) == 1)",
    ),
    "overlay_ignores_pin": _one(
        STEPS + "test_an_old_snapshot_is_found_while_a_newer_publication_is_unsettled",
        "corpus/reading.py",
        '            {"limit": OVERLAY_LIMIT + 1, **self._pinned()},',
        '            {"limit": OVERLAY_LIMIT + 1, "tenant": self.pin.tenant_id, "seq": self._database.read('
        '"SELECT active_seq FROM tenants WHERE tenant_id = ?", (self.pin.tenant_id,))[0][0]},',
    ),
    "gate_ignores_interval": _one(
        LIES + "test_an_old_end_keeps_no_superseded_revision_alive",
        "corpus/reading.py",
        '"WHERE i.revision_key = r.revision_key AND i.from_seq <= :seq AND :seq < i.to_seq)"\n)',
        '"WHERE i.revision_key = r.revision_key)"\n)',
    ),
    "gate_current_only": _one(
        ACCESS + "test_a_revision_opened_wider_later_does_not_open_its_predecessor[set_access]",
        "corpus/reading.py",
        "for digest in _digests(binding))",
        "for digest in _digests(binding)[-1:])",
    ),
    "ack_without_T": _one(
        RELEASE + "test_a_denial_is_acknowledged_later_than_any_message_that_was_cleared_before_it",
        "corpus/acknowledge.py",
        "await asyncio.sleep(ACKNOWLEDGE_AFTER_S)",
        "await asyncio.sleep(0)",
    ),
    "send_late": _one(
        RELEASE + "test_a_denial_that_is_acknowledged_while_the_clearing_read_returns_is_heeded[set_access]",
        "retrieval/gate.py",
        "if self._clock() - started < SEND_BOUND_S:",
        "if True:",
    ),
    "T_from_end_of_read": _one(
        RELEASE + "test_the_age_of_a_message_counts_from_the_start_of_its_read",
        "retrieval/gate.py",
        "            started = self._clock()\n            last = view.opened.clear(sorted(allowed), live=live)\n",
        "            last = view.opened.clear(sorted(allowed), live=live)\n            started = self._clock()\n",
    ),
    "cached_release_read": _one(
        RELEASE + "test_a_denial_between_the_judgement_and_the_last_read_is_heeded[delete]",
        "retrieval/gate.py",
        "last = view.opened.clear(sorted(allowed), live=live)",
        "last = Clearing(before.epoch, before.policy_revision, allowed)",
    ),
    "denial_without_epoch": _one(
        RELEASE + "test_a_denial_between_the_judgement_and_the_last_read_is_heeded[set_access]",
        "corpus/catalog/documents.py",
        "    refresh(tx, document.document_key)\n    step_epoch(tx, tenant_id)\n"
        "    operation_id = open_operation(\n        tx, tenant_id, OperationKind.SET_ACCESS",
        "    refresh(tx, document.document_key)\n"
        "    operation_id = open_operation(\n        tx, tenant_id, OperationKind.SET_ACCESS",
    ),
    "no_numbers": Mistake(
        STEPS + "test_delete_while_a_put_is_queued_wins[staged]",
        (
            Edit(
                "corpus/catalog/publication.py",
                "if _denied(row) or (live is not None and row.number < live.number):",
                "if False:",
            ),
            Edit(
                "corpus/catalog/publication.py",
                "found += [row for row in tx.execute(query) if not _denied(row)]",
                "found += tx.execute(query)",
            ),
            Edit(
                "corpus/catalog/publication.py",
                "    tx.execute(revisions.update().where(revisions.c.revision_key == row.revision_key)"
                '.values(state="published"))\n',
                "    tx.execute(revisions.update().where(revisions.c.revision_key == row.revision_key)"
                '.values(state="published", number=row.tombstone + row.number))\n',
            ),
        ),
    ),
    "tombstone_ends_with_put": _one(
        ACCESS + "test_a_put_after_a_delete_does_not_bring_earlier_revisions_back",
        "corpus/reading.py",
        'r.retracted = 0 AND r.number >= d.tombstone"',
        'r.retracted = 0 AND (r.number >= d.tombstone OR d.number > d.tombstone)"',
    ),
    "older_put_wins": _one(
        STEPS + "test_an_older_put_never_overwrites_a_newer_one",
        "corpus/catalog/publication.py",
        "if _denied(row) or (live is not None and row.number < live.number):",
        "if _denied(row):",
    ),
    "publish_overwrites_access": Mistake(
        ACCESS + "test_publishing_does_not_overwrite_an_access_that_moved_since_acceptance",
        (
            Edit(
                "corpus/catalog/publication.py",
                ".where(documents.c.document_key == row.document_key, documents.c.access_number < row.number)",
                ".where(documents.c.document_key == row.document_key)",
            ),
            Edit(
                "corpus/catalog/publication.py",
                'revision_key == row.revision_key).values(state="published"))',
                'revision_key == row.revision_key).values(state="published", own=f\'["{row.given}"]\'))',
            ),
        ),
    ),
    "put_narrows_late": _one(
        ACCESS + "test_a_put_narrows_from_acceptance_and_for_those_it_leaves_out_only",
        "corpus/catalog/bindings.py",
        "if sibling.state in PENDING and sibling.number > max(revision.number, revision.named)",
        "if False",
    ),
    "set_access_all_revisions": _one(
        ACCESS + "test_set_access_names_the_active_revision_alone",
        "corpus/catalog/documents.py",
        "revisions.update().where(revisions.c.revision_key == named).values(",
        "revisions.update().where(revisions.c.document_key == document.document_key).values(",
    ),
    "narrowing_not_sticky": _one(
        ACCESS + "test_what_a_change_closed_without_naming_it_stays_closed_when_another_opens_the_named_one",
        "corpus/catalog/bindings.py",
        "earlier = max(revision.number, revision.named) < number",
        "earlier = False",
    ),
    "set_access_without_etag": _one(
        ACCESS + "test_set_access_without_an_etag_only_closes",
        "corpus/catalog/documents.py",
        "named = active.revision_key if etag and active is not None else None",
        "named = active.revision_key if active is not None else None",
    ),
    "plain_rollback": _one(
        ROLLBACKS + "test_nothing_of_a_rolled_back_snapshot_is_in_latest_at_least_or_exact_reads",
        "corpus/catalog/publication.py",
        "rolled_back = tenant.active_seq != tenant.head_seq",
        "rolled_back = False",
    ),
    "reuse_seq": _one(
        STEPS + "test_no_seq_is_drawn_twice",
        "corpus/catalog/publication.py",
        "seq = Seq(tenant.last_seq + 1)",
        "seq = Seq(tenant.active_seq + 1)",
    ),
    "stage_into_store": _one(
        STEPS + "test_what_is_staged_is_not_in_the_store",
        "corpus/projection.py",
        "          SELECT revision_key, from_seq, to_seq FROM intervals\n",
        "          SELECT revision_key, from_seq, to_seq FROM intervals\n"
        "          UNION SELECT revision_key, (SELECT last_seq + 1 FROM tenants WHERE tenant_id = :tenant), :open\n"
        "          FROM revisions WHERE state = 'staged'\n",
    ),
    "close_before_move": _one(
        ACCESS + "test_set_access_during_a_build_of_the_same_document[True-3]",
        "corpus/projection.py",
        "          SELECT revision_key, from_seq, to_seq FROM intervals\n",
        "          SELECT revision_key, from_seq, to_seq FROM intervals WHERE revision_key NOT IN\n"
        "          (SELECT revision_key FROM publication_entries WHERE action = 'close')\n",
    ),
    "move_before_insert": _one(
        STEPS + "test_a_reader_sees_the_old_snapshot_up_to_the_move_and_the_new_one_from_it_on",
        "corpus/publication.py",
        "            await self._projection.copy(work, lambda: self._renew(lease))\n"
        "            yield Step.COPIED\n"
        "            if await self._projection.is_whole(work):\n"
        "                break\n",
        "            yield Step.COPIED\n            break\n",
    ),
    "intervals_after_move": Mistake(
        STEPS + "test_a_reader_sees_the_old_snapshot_up_to_the_move_and_the_new_one_from_it_on",
        (
            Edit(
                "corpus/catalog/publication.py",
                "    _move_intervals(tx, publication, {row.revision_key: row.document_key"
                " for row in _added(tx, publication)})\n    _activate(tx, publication)\n",
                "    _activate(tx, publication)\n",
            ),
            Edit(
                "corpus/publication.py",
                "        yield Step.MOVED if moved else Step.UNDONE\n",
                "        yield Step.MOVED if moved else Step.UNDONE\n"
                "        from corpus.catalog.publication import _added, _move_intervals\n"
                "        await self._database.write(lambda tx: _move_intervals(tx, publication, {\n"
                "            row.revision_key: row.document_key for row in _added(tx, publication)}))\n",
            ),
        ),
    ),
    "move_without_compare": _one(
        ROLLBACKS + "test_a_rollback_during_publishing_undoes_the_publication",
        "corpus/catalog/publication.py",
        " or tenant.active_seq != publication.base_seq:",
        ":",
    ),
    "move_without_fence": _one(
        STEPS + "test_an_expired_lease_fences_its_holder_at_the_move",
        "corpus/catalog/publication.py",
        "    if not holds(tx, lease):\n        raise LeaseLost(lease.tenant_id)\n"
        "    tenant = tenant_row(tx, lease.tenant_id)\n    fresh = _still_fit(",
        "    tenant = tenant_row(tx, lease.tenant_id)\n    fresh = _still_fit(",
    ),
    "move_without_recheck": Mistake(
        STEPS + "test_a_build_abandoned_between_two_steps_is_served_whole_or_not_at_all[4]",
        (
            Edit(
                "corpus/catalog/publication.py",
                "if {row.revision_key for row in fresh} != publication.fresh or tenant",
                "if tenant",
            ),
            Edit(
                "corpus/catalog/publication.py",
                'query = _with_tombstone().where(revisions.c.revision_key.in_(batch), revisions.c.state == "staged")',
                "query = _with_tombstone().where(revisions.c.revision_key.in_(batch))",
            ),
        ),
    ),
    "lease_without_settling": _one(
        STEPS + "test_a_dead_publication_is_undone_before_anything_else_is_published",
        "corpus/publication.py",
        "dead = await self._database.write(lambda tx: undo_dead_publication(tx, lease))",
        "dead = None",
    ),
    "recovery_without_drain": _one(
        STEPS + "test_a_lease_is_granted_only_when_nothing_of_a_dead_holder_can_still_arrive",
        "corpus/catalog/leases.py",
        "now < row.expires_at + terms.drain_s * 1e6",
        "now < row.expires_at",
    ),
    "writer_without_drain": _one(
        WRITES + "test_a_writer_whose_call_was_late_waits_until_it_can_not_arrive[insert]",
        "corpus/projection.py",
        "            await asyncio.sleep(self._terms.drain_s)\n            raise\n",
        "            raise\n",
    ),
    "no_reread": _one(
        WRITES + "test_a_writer_ends_only_when_the_store_agrees",
        "corpus/projection.py",
        "return held == self._wanted(work).keys()",
        "return True",
    ),
    "repair_ignores_build": _one(
        WRITES + "test_a_repair_during_a_publication_keeps_its_fragments",
        "corpus/projection.py",
        "          WHERE e.tenant_id = :tenant AND e.action IN ('add', 'fresh')\n",
        "          WHERE e.tenant_id = :tenant AND FALSE\n",
    ),
    "patch_closed": _one(
        WRITES + "test_a_superseded_revision_gets_its_end_in_the_store_by_a_copy",
        "corpus/store.py",
        "span.start, span.end, from_seq, to_seq, access_version)",
        "span.start, span.end, from_seq, access_version)",
    ),
    "delete_without_wait": _one(
        WRITES + "test_the_old_copy_goes_later_than_any_search_that_began_before_the_new_one",
        "corpus/projection.py",
        "        await asyncio.sleep(self._terms.search_s)\n",
        "",
    ),
    "delete_by_old_view": Mistake(
        WRITES + "test_a_copy_that_another_writer_has_made_meanwhile_is_not_deleted",
        (
            Edit(
                "corpus/projection.py",
                "            await self.copy(work, before_write)\n            yield Step.COPIED\n",
                "            self._old = self._wanted(work).keys()\n"
                "            await self.copy(work, before_write)\n            yield Step.COPIED\n",
            ),
            Edit(
                "corpus/projection.py",
                "return None if wanted - held else frozenset(held - wanted)",
                "return None if wanted - held else frozenset(held - self._old)",
            ),
        ),
    ),
    "delete_by_new_view": _one(
        WRITES + "test_an_access_change_during_a_copy_does_not_delete_what_is_not_yet_replaced",
        "corpus/projection.py",
        "return None if wanted - held else frozenset(held - wanted)",
        "return frozenset(held - wanted)",
    ),
    "id_by_digest": _one(
        WRITES + "test_no_object_id_returns_when_an_access_does",
        "corpus/catalog/bindings.py",
        '"access_version": revision.access_version + 1}',
        '"access_version": int(store_access[:8], 16)}',
    ),
    "read_back_one_replica": _one(
        "tests/protocol/test_replicas.py::test_writers_write_to_and_read_back_from_every_replica[list]",
        "corpus/weaviate.py",
        "search_get_pb2.MetadataRequest(uuid=True), _ALL)",
        "search_get_pb2.MetadataRequest(uuid=True), _ONE)",
    ),
    "vacuum_without_wait": NotYet("there is no vacuum: nothing raises the low-water seq or drops intervals"),
}
